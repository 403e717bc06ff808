package protocol

import "time"

// DefaultElectionTimeout is etcd's default election timeout
// (--etcd-election-timeout).
const DefaultElectionTimeout = time.Second

// DrainTime is how long after it was sent a leader's request can still land in
// the API: 5 s for which its sender waits for it, the time that etcd may take
// after that, and a margin of 1 s (docs/protocol.md#stale-writes). etcd takes 5 s and
// twice its election timeout at most (docs/upstream.md#apiserver-timeouts). A
// timeout of 0 means DefaultElectionTimeout.
func DrainTime(electionTimeout time.Duration) time.Duration {
	const sender, etcd, margin = 5 * time.Second, 5 * time.Second, time.Second
	if electionTimeout <= 0 {
		electionTimeout = DefaultElectionTimeout
	}
	return sender + etcd + 2*electionTimeout + margin
}

// DrainState says whether requests of the leaders before this one can still land.
// It is decided once in each leadership, before the leader records itself
// (docs/protocol.md#drain).
type DrainState int

// The drain states. The zero value: there was no status that could tell, so the
// mark has to.
const (
	DrainUnknown DrainState = iota
	// Undrained: requests of a former leader may land until DrainTime after this
	// leader was confirmed.
	Undrained
	// Drained: the previous leader had ended all its requests, and so had those
	// before it; or there was none.
	Drained
)

// String returns Unknown, Undrained or Drained.
func (d DrainState) String() string {
	switch d {
	case Undrained:
		return "Undrained"
	case Drained:
		return "Drained"
	case DrainUnknown:
	}
	return "Unknown"
}

// DrainStateOf reads the drain state from the status as the leader first finds
// it. A status that was written by hand hides who led before, and counts as
// undrained. So does one of a store that went back (rewound), as after a restore
// from a backup: it may be that of a leader long ago.
func DrainStateOf(v StatusView, rewound bool) DrainState {
	switch {
	case v.Kind != StatusPresent:
		return DrainUnknown
	case hasDrained(v.Status) && !rewound:
		return Drained
	}
	return Undrained
}

// hasDrained reports whether the leader that the status names had ended its
// requests. The epochs have to be equal: a higher drained epoch can only come
// from another store.
func hasDrained(s Status) bool {
	return s.Epoch != 0 && s.DrainedEpoch == s.Epoch
}

// Surveyed completes an unknown drain state from the mark. Where there is neither
// a mark nor a stamp, no leader has been there. A mark does not say whether its
// writer had ended its requests.
func (d DrainState) Surveyed(m Mark) DrainState {
	switch {
	case d != DrainUnknown || m.Kind == MarkUnknown:
		return d
	case m.Kind == MarkAbsent && m.HighestEpoch == 0:
		return Drained
	}
	return Undrained
}

// ResignFacts are what a leader knows when it gives up its key gracefully.
type ResignFacts struct {
	Status       StatusView
	Leader       NodeID
	Epoch        int64
	Predecessors DrainState
	Waited       bool // DrainTime has passed since the leader was confirmed
	Ended        bool // no request of its own can land any more
}

// nothingCanLand reports whether no request of this leader, nor of any leader
// before it, can land any more.
func (f ResignFacts) nothingCanLand() bool {
	return f.Ended && (f.Predecessors == Drained || f.Waited)
}

// Drain returns the status that spares the next leader the wait. It
// returns false where the next leader must wait: a request of this leader has an
// unknown outcome, or one of a former leader may still land. Otherwise a
// short-lived leader would hide the requests of the one before it. It also
// returns false where the status has that already: this leader has written nothing
// (docs/protocol.md#drain).
func Drain(f ResignFacts) (Status, bool) {
	if f.Status.Kind != StatusPresent || !f.nothingCanLand() || hasDrained(f.Status.Status) {
		return Status{}, false
	}
	out := f.Status.Status
	out.Leader, out.Epoch, out.DrainedEpoch = f.Leader, f.Epoch, f.Epoch
	return out, true
}

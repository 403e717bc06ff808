package protocol

import "time"

// DefaultElectionTimeout is etcd's default election timeout
// (--etcd-election-timeout).
const DefaultElectionTimeout = time.Second

// DrainTime is how long a leader's request can still land in the API, from the moment
// when it was sent. It is the sender's timeout (5 s), then etcd's time, and a margin of 1 s
// (docs/protocol-objects.md#stale-writes). etcd takes at most 5 s plus twice its election timeout
// (docs/upstream.md#apiserver-timeouts). A timeout of 0 means DefaultElectionTimeout.
func DrainTime(electionTimeout time.Duration) time.Duration {
	const sender, etcd, margin = 5 * time.Second, 5 * time.Second, time.Second
	if electionTimeout <= 0 {
		electionTimeout = DefaultElectionTimeout
	}
	return sender + etcd + 2*electionTimeout + margin
}

// DrainState says whether requests of earlier leaders can still land. The leader decides it
// once in its leadership, before it records itself in the status
// (docs/protocol-objects.md#drain).
type DrainState int

// The drain states. The zero value: without a status it is unknown, and the mark decides.
const (
	DrainUnknown DrainState = iota
	// Undrained: requests of a former leader may land until DrainTime after this
	// leader was confirmed.
	Undrained
	// Drained: the previous leader and all before it ended all their requests; or no
	// leader preceded this one.
	Drained
)

// String returns Unknown, Undrained or Drained.
func (d DrainState) String() string {
	return nameOf(d, "Unknown", "Undrained", "Drained")
}

// DrainStateOf reads the drain state from the status that the leader finds first. A
// status written by hand hides who led before, and counts as undrained. So does the
// status of a store that went back (rewound), as after a restore from a backup: a
// leader may have written it long ago.
func DrainStateOf(v StatusView, rewound bool) DrainState {
	switch {
	case v.Kind != StatusPresent:
		return DrainUnknown
	case hasDrained(v.Status) && !rewound:
		return Drained
	}
	return Undrained
}

// hasDrained reports whether the leader named in the status ended its requests. The
// epochs must be equal: a higher drained epoch can only come from another store.
func hasDrained(s Status) bool {
	return s.Epoch != 0 && s.DrainedEpoch == s.Epoch
}

// Surveyed completes an unknown drain state from the mark. Without a mark and without
// stamps, no leader was there before. A mark does not record whether its writer ended
// its requests.
func (d DrainState) Surveyed(m Mark) DrainState {
	switch {
	case d != DrainUnknown || m.Kind == MarkUnknown:
		return d
	case m.Kind == MarkAbsent && m.HighestEpoch == 0:
		return Drained
	}
	return Undrained
}

// ResignFacts describe a leader that gives up its key gracefully.
type ResignFacts struct {
	Status       StatusView
	Leader       NodeID
	Epoch        int64
	Predecessors DrainState
	Waited       bool // DrainTime passed since the leader was confirmed
	Ended        bool // no request of its own can land any more
}

// nothingCanLand reports whether requests of this leader and of all before it can no
// longer land.
func (f ResignFacts) nothingCanLand() bool {
	return f.Ended && (f.Predecessors == Drained || f.Waited)
}

// Drain returns the status that spares the next leader the wait (docs/protocol-objects.md#drain).
// It returns false if the next leader must wait, because a request of this leader ended
// with unknown outcome, or a former leader's request may still land. Otherwise a short-lived
// leader would hide the requests of the one before it. It also returns false if the status
// is drained already: this leader wrote nothing.
func Drain(f ResignFacts) (Status, bool) {
	if f.Status.Kind != StatusPresent || !f.nothingCanLand() || hasDrained(f.Status.Status) {
		return Status{}, false
	}
	out := f.Status.Status
	out.Leader, out.Epoch, out.DrainedEpoch = f.Leader, f.Epoch, f.Epoch
	return out, true
}

package protocol

import "time"

// DrainTime is how long after it was sent a leader's request can still land in
// the API: 5 s in which its sender waits for it, 7 s that etcd may take on top
// of that, and a margin (DESIGN 6.4).
const DrainTime = 13 * time.Second

// Past says what was recorded of the leaders before this one when it was
// elected. It is decided once in each leadership, before the leader records
// itself (6.4).
type Past int

// What can have been recorded. The zero value: there was no status to record it
// in, so that the mark has to tell.
const (
	PastUnknown Past = iota
	// PastUndrained: requests of a former leader may land until DrainTime after
	// this one was confirmed.
	PastUndrained
	// PastDrained: the leader before had ended all its requests, and so had
	// those before it; or there was none.
	PastDrained
)

// String returns Unknown, Undrained or Drained.
func (p Past) String() string {
	switch p {
	case PastUndrained:
		return "Undrained"
	case PastDrained:
		return "Drained"
	case PastUnknown:
	}
	return "Unknown"
}

// PastOf reads the past from the status as the leader first finds it. One that
// was written by hand hides who led before, and counts as undrained. So does one
// of a store that went back, as after a restore from a backup (rewound): it may be
// that of a leader long ago.
func PastOf(v StatusView, rewound bool) Past {
	switch {
	case v.Kind != StatusPresent:
		return PastUnknown
	case saysDrained(v.Status) && !rewound:
		return PastDrained
	}
	return PastUndrained
}

// saysDrained reports whether the leader that is named had ended its requests.
func saysDrained(s Status) bool {
	return s.Epoch != 0 && s.DrainedEpoch == s.Epoch // equal, not above: a drained epoch can come from another store
}

// Surveyed completes a past that no status told of by what the API shows. Where
// there is neither a mark nor a stamp nobody was there. A mark does not say
// whether its writer had ended its requests.
func (p Past) Surveyed(m Mark) Past {
	switch {
	case p != PastUnknown || m.Kind == MarkUnknown:
		return p
	case m.Kind == MarkAbsent && m.HighestEpoch == 0:
		return PastDrained
	}
	return PastUndrained
}

// Farewell is what a leader knows that is about to give its key up in good
// order.
type Farewell struct {
	Status StatusView
	Leader NodeID
	Epoch  int64
	Past   Past
	Waited bool // DrainTime has gone by since it was confirmed
	Ended  bool // no request of its own can land any more
}

// Drain returns the status that tells the next leader that it need not wait,
// and false where that is not so: an own request has an unknown outcome, or one
// of a former leader may still land. A short-lived leader would otherwise hide
// the requests of the one before it (6.4). It is false, too, where the status
// says so already: this leader has written nothing.
func Drain(f Farewell) (Status, bool) {
	if f.Status.Kind != StatusPresent || !f.Ended || f.Past != PastDrained && !f.Waited || saysDrained(f.Status.Status) {
		return Status{}, false
	}
	out := f.Status.Status
	out.Leader, out.Epoch, out.DrainedEpoch = f.Leader, f.Epoch, f.Epoch
	return out, true
}

package membership

import "time"

// This file decides when a member that does not vote yet is promoted or evicted
// (docs/protocol-membership.md#learners).

// LearnerFacts describe a learner to the sidecar of a voter.
type LearnerFacts struct {
	// Leads: the sidecar is the one beside etcd's leader. Any other acts only in its place.
	Leads bool
	// Leaving: its removal was decided, and may be carried out at any time.
	Leaving bool
	// Answers: the learner reported how much of the log it applied.
	Answers bool
	// Applied is the log index up to which it applied, Index is the last one of the leader's log, or
	// of the voter's.
	Applied, Index uint64
	// Waits is how long it has had so much of the log that it could vote.
	Waits time.Duration
	// Behind: etcd refused to promote it.
	Behind bool
	// Idle is how long it made no progress, Patience is the limit.
	Idle, Patience time.Duration
}

// LearnerStep is the next action on a learner.
type LearnerStep int

// The steps. The zero value: not decided.
const (
	_ LearnerStep = iota
	// AwaitLearner: do nothing yet.
	AwaitLearner
	// PromoteLearner: it votes from then on.
	PromoteLearner
	// EvictLearner: write that it is leaving, then remove it.
	EvictLearner
)

// syncedShare is the fraction of the leader's log that a learner must hold, by etcd's rule.
const syncedShare = 0.9

// StandInAfter is how long a learner could vote before the sidecar of another voter asks for it: the
// one beside etcd's leader hangs, or is cut off. It needs a tenth of a second otherwise, and etcd wants
// five seconds between two voters.
const StandInAfter = 10 * time.Second

// InSync reports whether the learner has so much of the log that it may vote.
func (f LearnerFacts) InSync() bool {
	return f.Answers && !f.Behind && float64(f.Applied) >= syncedShare*float64(f.Index)
}

// NextLearnerStep decides the next action on a learner. It is called repeatedly as long as the
// member is a learner.
func NextLearnerStep(f LearnerFacts) LearnerStep {
	switch {
	case !f.Leads && (f.Leaving || !f.InSync() || f.Waits < StandInAfter):
		return AwaitLearner // the sidecar beside etcd's leader evicts alone: others know less of the learner
	case f.Leaving:
		return EvictLearner // that is final, and as a voter it could be removed at any time
	case f.InSync():
		return PromoteLearner // even if idle: the leader may have nothing more to send
	case f.Idle >= f.Patience:
		return EvictLearner
	}
	return AwaitLearner
}

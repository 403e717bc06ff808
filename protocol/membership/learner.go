package membership

import "time"

// This file decides when a member that does not vote yet is promoted or evicted
// (docs/protocol-membership.md#learners).

// LearnerFacts describe a learner to the sidecar beside etcd's leader.
type LearnerFacts struct {
	// Leaving: its removal was decided, and may be carried out at any time.
	Leaving bool
	// Answers: the learner reported how much of the log it applied.
	Answers bool
	// Applied is the log index up to which it applied, Index is the last one of the leader's log.
	Applied, Index uint64
	// Behind: etcd refused to promote it.
	Behind bool
	// Idle is how long it made no progress, Patience is the limit.
	Idle, Patience time.Duration
}

// LearnerStep is the next action on a learner.
type LearnerStep int

// The steps. The zero value: not decided.
const (
	LearnerStepUnset LearnerStep = iota
	// AwaitLearner: do nothing yet.
	AwaitLearner
	// PromoteLearner: it votes from then on.
	PromoteLearner
	// EvictLearner: write that it is leaving, then remove it.
	EvictLearner
)

// inSync is the fraction of the leader's log that a learner must hold, by etcd's rule.
const inSync = 0.9

// NextLearnerStep decides the next action on a learner. It is called repeatedly as long as the
// member is a learner.
func NextLearnerStep(f LearnerFacts) LearnerStep {
	switch {
	case f.Leaving:
		return EvictLearner // that is final, and as a voter it could be removed at any time
	case f.Answers && !f.Behind && float64(f.Applied) >= inSync*float64(f.Index):
		return PromoteLearner // even if idle: the leader may have nothing more to send
	case f.Idle >= f.Patience:
		return EvictLearner
	}
	return AwaitLearner
}

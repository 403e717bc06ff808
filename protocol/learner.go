package protocol

import "time"

// This file says what is done about a member that does not vote yet
// (docs/protocol.md#learners).

// LearnerFacts are what the sidecar beside etcd's leader knows of a learner.
type LearnerFacts struct {
	// Leaving: its removal was decided, and may be carried out at any time.
	Leaving bool
	// Answers: the learner has said how much of the log it has.
	Answers bool
	// Applied is what it has applied of the log, Index is how long the leader's log is.
	Applied, Index uint64
	// Behind: etcd has refused to let it vote.
	Behind bool
	// Idle is how long it has made no progress, Patience is how long it may.
	Idle, Patience time.Duration
}

// LearnerStep is what is done about a learner.
type LearnerStep int

// The steps. The zero value: none was decided.
const (
	LearnerStepUnset LearnerStep = iota
	// AwaitLearner: nothing yet.
	AwaitLearner
	// PromoteLearner: it votes from then on.
	PromoteLearner
	// EvictLearner: write that it is leaving, then have it removed.
	EvictLearner
)

// inSync is the part of the leader's log that a learner must have, by etcd's rule.
const inSync = 0.9

// NextLearnerStep says what to do about a learner. It is asked again and again while the
// member is one.
func NextLearnerStep(f LearnerFacts) LearnerStep {
	switch {
	case f.Leaving:
		return EvictLearner // nothing takes that back, and it may be removed when it votes
	case f.Answers && !f.Behind && float64(f.Applied) >= inSync*float64(f.Index):
		return PromoteLearner // also one that is idle: the leader has nothing more for it
	case f.Idle >= f.Patience:
		return EvictLearner
	}
	return AwaitLearner
}

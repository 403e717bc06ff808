package membership

import (
	"testing"
	"time"
)

func TestNextLearnerStep(t *testing.T) {
	idle := func(f LearnerFacts) LearnerFacts { f.Idle = time.Minute; return f }
	for name, tc := range map[string]struct {
		facts LearnerFacts
		want  LearnerStep
	}{
		"silent":                   {LearnerFacts{Index: 100}, AwaitLearner},
		"silent, beside a new log": {LearnerFacts{}, AwaitLearner},
		"silent for too long":      {idle(LearnerFacts{Index: 100}), EvictLearner},
		"behind":                   {LearnerFacts{Answers: true, Applied: 89, Index: 100}, AwaitLearner},
		"behind for too long":      {idle(LearnerFacts{Answers: true, Applied: 89, Index: 100}), EvictLearner},
		"in sync":                  {LearnerFacts{Answers: true, Applied: 90, Index: 100}, PromoteLearner},
		"in sync, and idle":        {idle(LearnerFacts{Answers: true, Applied: 100, Index: 100}), PromoteLearner},
		"in sync, etcd disagrees":  {LearnerFacts{Answers: true, Applied: 90, Index: 100, Behind: true}, AwaitLearner},
		"etcd disagrees for long":  {idle(LearnerFacts{Answers: true, Applied: 90, Index: 100, Behind: true}), EvictLearner},
		"in sync, and leaving":     {LearnerFacts{Answers: true, Applied: 100, Index: 100, Leaving: true}, EvictLearner},
	} {
		tc.facts.Patience = time.Minute
		if got := NextLearnerStep(tc.facts); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

package membership

import (
	"strings"
	"testing"
	"time"
)

func TestNextLearnerStep(t *testing.T) {
	idle := func(f LearnerFacts) LearnerFacts { f.Idle = time.Minute; return f }
	elsewhere := func(f LearnerFacts, waits time.Duration) LearnerFacts { f.Waits = waits; return f }
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

		"elsewhere: in sync":               {elsewhere(LearnerFacts{Answers: true, Applied: 90, Index: 100}, StandInAfter-1), AwaitLearner},
		"elsewhere: in sync for long":      {elsewhere(LearnerFacts{Answers: true, Applied: 90, Index: 100}, StandInAfter), PromoteLearner},
		"elsewhere: etcd disagrees":        {elsewhere(LearnerFacts{Answers: true, Applied: 90, Index: 100, Behind: true}, time.Hour), AwaitLearner},
		"elsewhere: behind":                {elsewhere(LearnerFacts{Answers: true, Applied: 89, Index: 100}, time.Hour), AwaitLearner},
		"elsewhere: silent for too long":   {elsewhere(idle(LearnerFacts{Index: 100}), time.Hour), AwaitLearner},
		"elsewhere: in sync, and leaving":  {elsewhere(LearnerFacts{Answers: true, Applied: 100, Index: 100, Leaving: true}, time.Hour), AwaitLearner},
		"elsewhere: behind, and leaving":   {elsewhere(idle(LearnerFacts{Index: 100, Leaving: true}), time.Hour), AwaitLearner},
		"elsewhere: beside an empty index": {elsewhere(LearnerFacts{Answers: true}, 0), AwaitLearner},
	} {
		tc.facts.Patience, tc.facts.Leads = time.Minute, !strings.HasPrefix(name, "elsewhere")
		if got := NextLearnerStep(tc.facts); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

package membership

import "testing"

func TestMayClear(t *testing.T) {
	for name, tc := range map[string]struct {
		facts MarkerFacts
		want  bool
	}{
		"a creation without a log":          {MarkerFacts{Entering: true, Founds: true}, true},
		"a creation whose log is empty":     {MarkerFacts{Entering: true, Founds: true, Log: true}, true},
		"a creation that has its member":    {MarkerFacts{Entering: true, Founds: true, Log: true, Founded: true}, false},
		"a creation, and a foreign answer":  {MarkerFacts{Entering: true, Founds: true, Log: true, Founded: true, Replaced: true}, false},
		"a join without a log":              {MarkerFacts{Entering: true}, true},
		"a join with a log":                 {MarkerFacts{Entering: true, Log: true}, false},
		"a join as another member":          {MarkerFacts{Entering: true, Log: true, Replaced: true}, true},
		"being added, without a log":        {MarkerFacts{Phase: Adding, Listed: ListedLearner}, true},
		"being added, with a log":           {MarkerFacts{Phase: Adding, Log: true, Listed: NotListed}, false},
		"a member without a log":            {MarkerFacts{Phase: Working}, false},
		"a member that is not listed":       {MarkerFacts{Phase: Working, Log: true, Listed: NotListed}, false},
		"a member, and a foreign answer":    {MarkerFacts{Phase: Working, Log: true, Replaced: true}, false},
		"leaving, the list is not known":    {MarkerFacts{Phase: Leaving, Log: true}, false},
		"leaving, listed":                   {MarkerFacts{Phase: Leaving, Log: true, Listed: ListedVoter}, false},
		"leaving, listed, without a log":    {MarkerFacts{Phase: Leaving, Listed: ListedLearner}, false},
		"leaving, not listed":               {MarkerFacts{Phase: Leaving, Log: true, Listed: NotListed}, true},
		"without a member":                  {MarkerFacts{Phase: WithoutMember, Log: true, Listed: NotListed}, true},
		"removed, or its phase is not read": {MarkerFacts{Log: true, Listed: NotListed}, false},
	} {
		if got := MayClear(tc.facts); got != tc.want {
			t.Errorf("%s: got %t, want %t", name, got, tc.want)
		}
		if tc.facts.Runs = true; MayClear(tc.facts) {
			t.Errorf("%s: it may be cleared while the process runs", name)
		}
	}
}

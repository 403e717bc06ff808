package quorum

import "testing"

func TestHasMajority(t *testing.T) {
	voter, dead, learner := View{Healthy: true}, View{}, View{Healthy: true, Learner: true}
	for situation, tc := range map[string]struct {
		all  []View
		want bool
	}{
		"none":                  {nil, false},
		"one":                   {[]View{voter}, true},
		"one of two":            {[]View{voter, dead}, false},
		"two of three":          {[]View{voter, dead, voter}, true},
		"one of three":          {[]View{dead, voter, dead}, false},
		"learners do not count": {[]View{dead, voter, learner, learner}, false},
	} {
		if got := HasMajority(tc.all); got != tc.want {
			t.Errorf("%s: got %v, want %v", situation, got, tc.want)
		}
	}
}

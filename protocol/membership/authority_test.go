package membership

import "testing"

func TestStanding(t *testing.T) {
	for _, tt := range []struct {
		standing    Standing
		renew, sign bool
	}{
		{Standing{}, true, false},
		{Standing{Listed: NotListed}, true, false},
		{Standing{Listed: ListedLearner}, true, false},
		{Standing{Listed: ListedVoter}, true, true},
		{Standing{Listed: ListedVoter, Leaving: true}, true, false},
		{Standing{Listed: ListedVoter, Removed: true}, false, false},
		{Standing{Listed: NotListed, Removed: true}, false, false},
		{Standing{Rotating: true}, false, false},
		{Standing{Listed: NotListed, Rotating: true}, false, false},
		{Standing{Listed: NotListed, Rotating: true, Reported: true}, true, false},
		{Standing{Listed: NotListed, Rotating: true, Reported: true, Removed: true}, false, false},
		{Standing{Listed: ListedLearner, Rotating: true}, true, false},
		{Standing{Listed: ListedVoter, Rotating: true}, true, true},
	} {
		if got := tt.standing; got.MayRenew() != tt.renew || got.MaySign() != tt.sign {
			t.Errorf("%+v: renews %t, signs %t, want %t, %t", got, got.MayRenew(), got.MaySign(), tt.renew, tt.sign)
		}
	}
}

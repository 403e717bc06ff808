package member

import "testing"

func TestMissesEntries(t *testing.T) {
	for reason, want := range map[string]bool{
		"exit status 2: tocommit(1767) is out of range [lastIndex(1673)]. Was the raft log corrupted, truncated, or lost?": true,
		"exit status 1: failed to commit tx: no space left on device":                                                      false,
		"exit status 2: execute job failed":                                                                                false,
		"":                                                                                                                 false,
	} {
		if got := missesEntries(reason); got != want {
			t.Errorf("%q: got %t", reason, got)
		}
	}
}

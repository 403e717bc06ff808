package protocol

import "testing"

func TestRelease_Compare(t *testing.T) {
	ordered := []Release{{}, {0, 0, 2}, {0, 0, 10}, {0, 1, 0}, {0, 9, 9}, {1, 0, 0}, {1, 0, 1}, {10, 0, 0}}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := a.Compare(b); got != want {
				t.Errorf("%s.Compare(%s): got %d, want %d", a, b, got, want)
			}
			if got := a.Less(b); got != (want < 0) {
				t.Errorf("%s.Less(%s): got %t", a, b, got)
			}
		}
	}
}

package protocol

import "testing"

func TestAdmits(t *testing.T) {
	s := Status{State: Done, Version: ver("1.1.0"), MinCompatible: rel("1.0.0")}
	for _, tc := range []struct {
		release, m string
		want       Reason
	}{
		{"0.9.9", "0.0.0", ReleaseTooOld},
		{"1.0.0", "0.0.0", Ready},
		{"1.0.0", "1.1.0", Ready},
		{"2.0.0", "1.1.1", ReconcilerTooOld},
		{"0.9.9", "1.1.1", ReleaseTooOld},
	} {
		for _, state := range []State{Done, Working} {
			s.State = state
			ok, got := Admits(s, Node{Version: ver(tc.release), MinReconciler: rel(tc.m)})
			if got != tc.want || ok != (tc.want == Ready) {
				t.Errorf("Admits(%s, release %s M %s): got %t %s, want %s", s, tc.release, tc.m, ok, got, tc.want)
			}
		}
	}
}

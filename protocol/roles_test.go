package protocol

import "testing"

func TestRoles(t *testing.T) {
	for i := range 8 {
		want := Roles{Controller: i&1 != 0, Worker: i&2 != 0, Consensus: i&4 != 0}
		got, err := ParseRoles(want.Names())
		if err != nil || got != want {
			t.Errorf("%v: got %+v, %v, want %+v", want.Names(), got, err, want)
		}
	}
	if _, err := ParseRoles([]string{RoleWorker, "boss"}); err == nil {
		t.Error("an unknown role was taken")
	}
	if got := (Roles{}).Names(); got == nil || len(got) != 0 {
		t.Errorf("no roles: got %#v", got)
	}
}

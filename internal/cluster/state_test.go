package cluster

import "testing"

// TestAllowed checks every pair of states. The table is written out here a second
// time, as a drawing: a row is where from, a column where to.
func TestAllowed(t *testing.T) {
	columns := []State{New, ConnectingExternal, CreatingCluster, JoiningCluster, RestartingMember, Running, Failed}
	rows := map[State]string{
		New:                ".yyyy..",
		ConnectingExternal: ".....yy",
		CreatingCluster:    ".....yy",
		JoiningCluster:     "...y.yy",
		RestartingMember:   ".....yy",
		Running:            ".......",
		Failed:             ".......",
	}
	if len(rows) != len(States()) || len(columns) != len(States()) {
		t.Fatal("a state is missing from this test")
	}
	for _, from := range States() {
		for i, to := range columns {
			if got, want := Allowed(from, to), rows[from][i] == 'y'; got != want {
				t.Errorf("%s -> %s: got %v, want %v", from, to, got, want)
			}
		}
		if Allowed(from, "") || Allowed("", from) || Allowed(from, "Unknown") {
			t.Errorf("%s: a change from or to no state is allowed", from)
		}
		if got, want := from.Final(), from == Running || from == Failed; got != want {
			t.Errorf("%s: final is %v", from, got)
		}
	}
}

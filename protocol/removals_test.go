package protocol

import "testing"

func TestUpgradeReady(t *testing.T) {
	done := presentStatus(Status{State: Done, Version: ver("1.1.0")})
	working := presentStatus(Status{State: Working, Version: ver("1.1.0")})
	for _, tc := range []struct {
		name    string
		view    StatusView
		records []Record
		want    bool
	}{
		{"all on it", done, []Record{controller("a", "1.1.0"), controller("b", "1.1.0").dead()}, true},
		{"a worker does not count", done, []Record{controller("a", "1.1.0"), controller("w", "1.0.0").worker()}, true},
		{"a node whose role was just taken away", done, []Record{controller("a", "1.1.0"), controller("w", "1.0.0").roleTaken()}, false},
		{"working", working, []Record{controller("a", "1.1.0")}, false},
		{"one older", done, []Record{controller("a", "1.1.0"), controller("b", "1.0.0")}, false},
		{"one newer", done, []Record{controller("a", "1.1.0"), controller("b", "1.2.0")}, false},
		{"one corrupt", done, []Record{controller("a", "1.1.0"), controller("b", "1.1.0").corrupt("x")}, false},
		{"nobody", done, nil, false},
		{"no status", absentStatus(), []Record{controller("a", "1.1.0")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := UpgradeReady(tc.view, Fleet{Records: tc.records}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

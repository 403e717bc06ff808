package protocol

import "testing"

func TestEligible(t *testing.T) {
	me := Local{ID: "me", Version: ver("1.1.0")}
	for _, tc := range []struct {
		name    string
		records []*Record
		want    Reason
	}{
		{"alone", []*Record{controller("me", "1.1.0")}, ""},
		{"equals", []*Record{controller("a", "1.1.0"), controller("me", "1.1.0")}, ""},
		{"older ones", []*Record{controller("a", "1.0.9"), controller("me", "1.1.0")}, ""},
		{"a newer one", []*Record{controller("a", "1.1.1"), controller("me", "1.1.0")}, NewerAlive},
		{"a newer one that is dead", []*Record{controller("a", "1.1.1").dead(), controller("me", "1.1.0")}, ""},
		{"a newer one that has withdrawn", []*Record{controller("a", "1.1.1").withdrawn(), controller("me", "1.1.0")}, ""},
		{"a newer one without the role", []*Record{controller("a", "1.1.1").worker(), controller("me", "1.1.0")}, ""},
		{"not registered", nil, NotRegistered},
		{"registered as another release", []*Record{controller("me", "1.0.0")}, NotRegistered},
		{"own record corrupt", []*Record{controller("me", "1.1.0").corrupt("garbage")}, NotRegistered},
		{"without the role, and a newer one", []*Record{controller("a", "1.1.1"), controller("me", "1.1.0").worker()}, NotController},
		{"a newer one with a cordon", []*Record{controller("a", "1.1.1").cordoned(), controller("me", "1.1.0")}, ""},
		{"with a cordon", []*Record{controller("me", "1.1.0").cordoned()}, Cordoned},
		{"with a cordon, and a newer one", []*Record{controller("a", "1.1.1"), controller("me", "1.1.0").cordoned()}, Cordoned},
		{"with a cordon, without the role", []*Record{controller("me", "1.1.0").worker().cordoned()}, NotController},
		{"not registered, and a newer one", []*Record{controller("a", "1.1.1")}, NewerAlive},
		{"without the role", []*Record{controller("me", "1.1.0").worker()}, NotController},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Eligible(Fleet{Records: tc.records}, me)
			if got.Reason != tc.want || got.Eligible != (tc.want == "") || got.Eligible != (got.Message == "") {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

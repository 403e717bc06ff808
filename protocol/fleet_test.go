package protocol

import (
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	f := Fleet{Revision: 12, Records: []Record{
		controller("a", "0.0.2"), controller("b", "10000.0.0"), controller("w", "0.0.1").worker(),
		controller("x", "0.0.1").corrupt("garbage"),
	}}
	got := Summarize(f, rel("0.0.3"))
	want := Summary{Revision: 12, Min: rel("0.0.2"), Max: rel("10000.0.0"), Controllers: 2, Corrupt: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Summarize(Fleet{}, rel("0.0.3")); got.Min != rel("0.0.3") || got.Max != rel("0.0.3") {
		t.Errorf("the local release does not take part: %+v", got)
	}
}

func TestEligible(t *testing.T) {
	me := Local{ID: "me", Version: ver("1.1.0")}
	for _, tc := range []struct {
		name    string
		records []Record
		want    Reason
	}{
		{"alone", []Record{controller("me", "1.1.0")}, ""},
		{"equals", []Record{controller("a", "1.1.0"), controller("me", "1.1.0")}, ""},
		{"older ones", []Record{controller("a", "1.0.9"), controller("me", "1.1.0")}, ""},
		{"a newer one", []Record{controller("a", "1.1.1"), controller("me", "1.1.0")}, NewerAlive},
		{"a newer one that is dead", []Record{controller("a", "1.1.1").dead(), controller("me", "1.1.0")}, ""},
		{"a newer one that has withdrawn", []Record{controller("a", "1.1.1").withdrawn(), controller("me", "1.1.0")}, ""},
		{"a newer one without the role", []Record{controller("a", "1.1.1").worker(), controller("me", "1.1.0")}, ""},
		{"not registered", nil, NotRegistered},
		{"registered as another release", []Record{controller("me", "1.0.0")}, NotRegistered},
		{"own record corrupt", []Record{controller("me", "1.1.0").corrupt("garbage")}, NotRegistered},
		{"without the role", []Record{controller("me", "1.1.0").worker()}, NotController},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Eligible(Fleet{Records: tc.records}, me)
			if got.Reason != tc.want || got.Eligible != (tc.want == "") || got.Eligible != (got.Message == "") {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

func TestRegisters(t *testing.T) {
	local := Local{ID: "me", Version: ver("1.1.0"), Constraints: Constraints{MinReconciler: rel("1.0.0")}}
	last := controller("me", "1.1.0").needs("1.0.0")
	last.Node.BootID, last.Created, last.Writes = "boot", 3, 4
	next := func(change func(*Record)) Record {
		r := last
		r.Revision, r.Writes = last.Revision+1, last.Writes+1
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name  string
		found bool
		rec   Record
		want  bool
	}{
		{"unchanged", true, last, false},
		{"another field", true, next(func(r *Record) { r.Node.Address = "x" }), false},
		{"another role", true, next(func(r *Record) { r.Node.Roles.Worker = true }), false},
		{"gone", false, Record{}, true},
		{"another release", true, next(func(r *Record) { r.Node.Version = ver("1.2.0") }), true},
		{"another constraint", true, next(func(r *Record) { r.Node.MinReconciler = rel("0.9.0") }), true},
		{"another promise", true, next(func(r *Record) { r.Node.FenceAfter = time.Minute }), true},
		{"another boot", true, next(func(r *Record) { r.Node.BootID = "other" }), true},
		{"the role taken away", true, next(func(r *Record) { r.Node.Roles.Controller = false }), true},
		{"corrupt", true, next(func(r *Record) { r.Problem = "garbage" }), true},
		{"written twice: what it told in between is not known", true, next(func(r *Record) { r.Writes++ }), true},
		{"created anew", true, next(func(r *Record) { r.Created, r.Writes = 9, 1 }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Registers(tc.found, tc.rec, last, local, "boot"); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFences(t *testing.T) {
	for _, tc := range []struct {
		unconfirmed, after time.Duration
		want               bool
	}{
		{0, 0, false},
		{time.Hour, 0, false},
		{time.Hour, -time.Second, false},
		{29 * time.Second, time.Minute, false},
		{30 * time.Second, time.Minute, true},
		{time.Hour, time.Minute, true},
	} {
		if got := Fences(tc.unconfirmed, tc.after); got != tc.want {
			t.Errorf("Fences(%s, %s): got %t, want %t", tc.unconfirmed, tc.after, got, tc.want)
		}
	}
}

// Whoever is passed over has closed its gate, as long as neither of the two
// clocks runs twice as fast as the other.
func TestFences_beforeItIsPassedOver(t *testing.T) {
	const after = time.Minute
	for gone := time.Duration(0); gone < 2*after; gone += time.Second / 2 {
		r := controller("n", "1.0.0").gone(after, gone)
		for _, unconfirmed := range []time.Duration{gone/2 + 1, gone, 2 * gone} {
			if r.Expired() && !Fences(unconfirmed, after) {
				t.Errorf("gone for %s: expired, and not fenced after %s", gone, unconfirmed)
			}
		}
	}
}

func TestYieldsID(t *testing.T) {
	for _, tc := range []struct {
		name                string
		found               Presence
		held, want          bool
		instance, machineID string
	}{
		{"own presence", Presence{Instance: "i", MachineID: "m"}, true, false, "i", "m"},
		{"an older one on this machine", Presence{Instance: "j", MachineID: "m"}, false, false, "i", "m"},
		{"a newer one on this machine", Presence{Instance: "j", MachineID: "m"}, true, true, "i", "m"},
		{"one on another machine", Presence{Instance: "j", MachineID: "n"}, false, true, "i", "m"},
		{"one that came while this was cut off", Presence{Instance: "j", MachineID: "n"}, true, true, "i", "m"},
		{"machines unknown", Presence{Instance: "j"}, false, true, "i", ""},
		{"garbage", Presence{}, true, false, "i", "m"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := YieldsID(tc.found, tc.instance, tc.machineID, tc.held); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestUpgradeReady(t *testing.T) {
	done := present(Status{State: Done, Version: ver("1.1.0")})
	working := present(Status{State: Working, Version: ver("1.1.0")})
	for _, tc := range []struct {
		name    string
		view    StatusView
		records []Record
		want    bool
	}{
		{"all on it", done, []Record{controller("a", "1.1.0"), controller("b", "1.1.0").dead()}, true},
		{"a worker does not count", done, []Record{controller("a", "1.1.0"), controller("w", "1.0.0").worker()}, true},
		{"working", working, []Record{controller("a", "1.1.0")}, false},
		{"one older", done, []Record{controller("a", "1.1.0"), controller("b", "1.0.0")}, false},
		{"one newer", done, []Record{controller("a", "1.1.0"), controller("b", "1.2.0")}, false},
		{"one corrupt", done, []Record{controller("a", "1.1.0"), controller("b", "1.1.0").corrupt("x")}, false},
		{"nobody", done, nil, false},
		{"no status", absent(), []Record{controller("a", "1.1.0")}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := UpgradeReady(tc.view, Fleet{Records: tc.records}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestConstraints_Validate(t *testing.T) {
	own := rel("1.1.0")
	for _, c := range []Constraints{{}, {own, own}, {rel("1.0.0"), own}} {
		if err := c.Validate(own); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []Constraints{{MinReconciler: rel("1.1.1")}, {MinApiserver: rel("2.0.0")}} {
		if err := c.Validate(own); err == nil {
			t.Errorf("%+v: want an error", c)
		}
	}
}

func TestMismatched(t *testing.T) {
	with := func(r Record, digest string) Record { r.Node.Digest = digest; return r }
	got := Mismatched(Fleet{Records: []Record{
		with(controller("a", "1.0.0"), "x"), with(controller("b", "1.1.0"), "sha256:0123456789abcdef"), with(controller("c", "1.1.0"), "y"),
		with(controller("d", "1.1.0"), "y"), with(controller("e", "1.0.0"), "x"), with(controller("f", "1.0.0"), ""),
		with(controller("g", "1.0.0").worker(), "z"), with(controller("h", "1.0.0"), "z").corrupt("garbage"),
	}})
	if len(got) != 1 || got[0].Release != rel("1.1.0") {
		t.Fatalf("got %v, want release 1.1.0 alone", got)
	}
	if want := "sha256:0123456789ab on b; y on c, d"; got[0].String() != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
}

package upgrade

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestMismatched(t *testing.T) {
	with := func(r *record, digest string) *record { r.Node.Digest = digest; return r }
	got := Mismatched(protocol.Fleet{Records: of(
		with(controller("a", "1.0.0"), "x"), with(controller("b", "1.1.0"), "sha256:0123456789abcdef"), with(controller("c", "1.1.0"), "y"),
		with(controller("d", "1.1.0"), "y"), with(controller("e", "1.0.0"), "x"), with(controller("f", "1.0.0"), ""),
		with(controller("g", "1.0.0").worker(), "z"), with(controller("h", "1.0.0"), "z").corrupt("garbage"),
	)})
	if len(got) != 1 || got[0].Release != rel("1.1.0") {
		t.Fatalf("got %v, want release 1.1.0 alone", got)
	}
	if want := "sha256:0123456789ab on b; y on c, d"; got[0].String() != want || got[0].odd() != "b" {
		t.Errorf("got %q, the odd one %q, want %q", got[0], got[0].odd(), want)
	}
}

func TestMismatchedBundles(t *testing.T) {
	runs := func(id, name, digest string) *record {
		r := controller(id, "1.1.0")
		r.Node.Bundle, r.Node.Digest = name, digest
		return r
	}
	objectsOf := func(name string) protocol.StatusView { return presentStatus(protocol.Status{Bundle: name}) }
	for name, tc := range map[string]struct {
		view    protocol.StatusView
		records []*record
		want    string
	}{
		"one bundle of each name": {objectsOf("base"), []*record{runs("a", "base", "x"), runs("b", "acme", "y"), runs("c", "acme", "y"), runs("d", "", "x")}, ""},
		"two of the objects' name, of which one is not named": {
			objectsOf("base"), []*record{runs("a", "base", "x"), runs("b", "acme", "y"), runs("c", "", "z")},
			"nodes of release 1.1.0 have different bundles: x on a; z on c",
		},
		"two that wait for a replacement": {
			objectsOf("base"), []*record{runs("a", "acme", "x"), runs("b", "acme", "y"), runs("c", "other", "z")},
			"nodes of release 1.1.0 have different bundles of the name acme: x on a; y on b",
		},
		"of each name": {
			objectsOf("base"), []*record{runs("a", "other", "1"), runs("b", "acme", "1"), runs("c", "acme", "2"), runs("d", "base", "1"), runs("e", "base", "3"), runs("f", "other", "4")},
			"nodes of release 1.1.0 have different bundles: 1 on d; 3 on e" +
				" | nodes of release 1.1.0 have different bundles of the name acme: 1 on b; 2 on c" +
				" | nodes of release 1.1.0 have different bundles of the name other: 1 on a; 4 on f",
		},
		"the objects have no name": {
			objectsOf(""), []*record{runs("a", "base", "x"), runs("b", "acme", "y")},
			"nodes of release 1.1.0 have different bundles: x on a; y on b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range MismatchedBundles(tc.view, protocol.Fleet{Records: of(tc.records...)}) {
				got = append(got, m.Bundles())
			}
			if got := strings.Join(got, " | "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRunDifferences(t *testing.T) {
	runs := func(id, release, apiserver, services string) *record {
		r := controller(id, release)
		r.Presence.APIServer, r.Presence.Services = apiserver, services
		return r
	}
	for name, tc := range map[string]struct {
		records []*record
		want    []string // "REASON SUBJECT: a part of the message"
	}{
		"all the same": {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v1", "x")}, nil},
		"an old kube-apiserver beside a new sidecar": {
			[]*record{runs("a", "1.1.0", "v2", "x"), runs("b", "1.1.0", "v2", "x"), runs("c", "1.1.0", "v1", "x")},
			[]string{"APIServersDiffer c: release 1.1.0 have kube-apiservers of different versions: v1 on c; v2 on a, b;"},
		},
		"an upgrade changes both":    {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.1.0", "v2", "y")}, nil},
		"two that differ":            {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v1", "y")}, []string{"ServicesDiffer : x on a; y on b;"}},
		"unknown and none":           {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "", "")}, nil},
		"the other one is not alive": {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y").dead()}, nil},
		"the other one is a worker":  {[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y").worker()}, nil},
		"three that differ": {
			[]*record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y"), runs("c", "1.0.0", "v3", "x")},
			[]string{"APIServersDiffer : v1 on a; v2 on b; v3 on c;", "ServicesDiffer b: x on a, c; y on b;"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := runDifferences(protocol.Fleet{Records: of(tc.records...)})
			if len(got) != len(tc.want) {
				t.Fatalf("got %+v, want %q", got, tc.want)
			}
			for i, w := range got {
				head, part, _ := strings.Cut(tc.want[i], ": ")
				if string(w.Reason)+" "+w.Subject != head || !strings.Contains(w.Message, part) {
					t.Errorf("got %+v, want %q", w, tc.want[i])
				}
			}
		})
	}
}

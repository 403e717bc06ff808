package protocol

import (
	"strings"
	"testing"
)

func TestMismatched(t *testing.T) {
	with := func(r *Record, digest string) *Record { r.Node.Digest = digest; return r }
	got := Mismatched(Fleet{Records: []*Record{
		with(controller("a", "1.0.0"), "x"), with(controller("b", "1.1.0"), "sha256:0123456789abcdef"), with(controller("c", "1.1.0"), "y"),
		with(controller("d", "1.1.0"), "y"), with(controller("e", "1.0.0"), "x"), with(controller("f", "1.0.0"), ""),
		with(controller("g", "1.0.0").worker(), "z"), with(controller("h", "1.0.0"), "z").corrupt("garbage"),
	}})
	if len(got) != 1 || got[0].Release != rel("1.1.0") {
		t.Fatalf("got %v, want release 1.1.0 alone", got)
	}
	if want := "sha256:0123456789ab on b; y on c, d"; got[0].String() != want || got[0].Odd() != "b" {
		t.Errorf("got %q, the odd one %q, want %q", got[0], got[0].Odd(), want)
	}
}

func TestRunDifferences(t *testing.T) {
	runs := func(id, release, apiserver, services string) *Record {
		r := controller(id, release)
		r.Presence.APIServer, r.Presence.Services = apiserver, services
		return r
	}
	for name, tc := range map[string]struct {
		records []*Record
		want    []string // "REASON SUBJECT: a part of the message"
	}{
		"all the same": {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v1", "x")}, nil},
		"an old kube-apiserver beside a new sidecar": {
			[]*Record{runs("a", "1.1.0", "v2", "x"), runs("b", "1.1.0", "v2", "x"), runs("c", "1.1.0", "v1", "x")},
			[]string{"APIServersDiffer c: release 1.1.0 have kube-apiservers of different versions: v1 on c; v2 on a, b;"},
		},
		"an upgrade changes both":    {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.1.0", "v2", "y")}, nil},
		"two that differ":            {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v1", "y")}, []string{"ServicesDiffer : x on a; y on b;"}},
		"unknown and none":           {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "", "")}, nil},
		"the other one is not alive": {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y").dead()}, nil},
		"the other one is a worker":  {[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y").worker()}, nil},
		"three that differ": {
			[]*Record{runs("a", "1.0.0", "v1", "x"), runs("b", "1.0.0", "v2", "y"), runs("c", "1.0.0", "v3", "x")},
			[]string{"APIServersDiffer : v1 on a; v2 on b; v3 on c;", "ServicesDiffer b: x on a, c; y on b;"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := RunDifferences(Fleet{Records: tc.records})
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

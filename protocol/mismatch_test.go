package protocol

import "testing"

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
	if want := "sha256:0123456789ab on b; y on c, d"; got[0].String() != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
}

package applyset

import (
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

func named(c protocol.Content, bundle string) protocol.Content {
	c.Bundle = bundle
	return c
}

// rereadParent returns the parent as a leader reads it that another one has written.
func rereadParent(t *testing.T, p Parent, m MarkData) Parent {
	t.Helper()
	obj, err := p.With(Set{Name: "lockstep", Namespace: "kube-system"}, ParentData{Mark: m})
	if err != nil {
		t.Fatal(err)
	}
	return DecodeParent(obj)
}

// A program that does not know names writes the mark without them, and keeps the key.
func TestParent_keepsTheName(t *testing.T) {
	first, second := content(release(1, 0, 0), 1), content(release(1, 1, 0), 2)
	p := rereadParent(t, Parent{}, MarkData{FirstDone: true, Entries: []protocol.Content{named(first, "acme")}})
	if got := p.Mark.Mark(0).Bundle(); got != "acme" || p.Mark.Entries[0] != named(first, "acme") {
		t.Errorf("got %v", p.Mark)
	}
	if !p.Mark.SameContent(Finished(named(first, "acme"), 9)) || p.Mark.SameContent(Finished(named(first, "base"), 9)) {
		t.Error("a mark is the same exactly if its name is")
	}
	p = rereadParent(t, p, MarkData{FirstDone: true, Entries: []protocol.Content{first, second}})
	if got := p.Mark.Mark(0).Bundle(); got != "acme" || p.Mark.Entries[1] != named(second, "acme") {
		t.Errorf("after an older program: got %v", p.Mark)
	}
	p = rereadParent(t, p, p.Mark.Begun(protocol.Work{Content: named(content(release(1, 2, 0), 3), "base")}))
	if got := p.Mark.Mark(0).Bundle(); got != "base" || len(p.Mark.Entries) != 3 {
		t.Errorf("a replacement: got %v", p.Mark)
	}
}

// A mark that is damaged, or that an older program wrote for a new parent.
func TestParent_withoutMark(t *testing.T) {
	p := DecodeParent(&kube.Object{Object: map[string]any{"data": map[string]any{markKey: "garbage", bundleKey: "acme"}}})
	stamps := []Stamp{{Release: release(1, 0, 0), Epoch: 3}}
	if got := p.Effective(stamps, protocol.Work{}).Mark(0).Bundle(); p.Known || got != "acme" {
		t.Errorf("a damaged mark: got %q", got)
	}
	if got := rereadParent(t, Parent{}, MarkData{Entries: []protocol.Content{content(release(1, 0, 0), 1)}}); got.Bundle != "" || got.Mark.Mark(0).Bundle() != "" {
		t.Errorf("without a name: got %v", got)
	}
	p = DecodeParent(&kube.Object{Object: map[string]any{"data": map[string]any{markKey: "{}", bundleKey: "No Name"}}})
	if p.Bundle != "" || p.Mark.Mark(0).Bundle() != "" {
		t.Errorf("an invalid name: got %v", p)
	}
}

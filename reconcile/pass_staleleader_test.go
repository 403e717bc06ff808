package reconcile_test

import (
	"net/http"
	"testing"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// successor returns another leader of the same set, with a bundle of its own.
func (r *rig) successor() *rig {
	next := *r
	next.wire = &wire{}
	next.cfg.Bundle = event.New[*bundle.Bundle](nil)
	next.cfg.RESTConfig = shared.Get(r.t).Config()
	next.restart()
	return &next
}

// overtakenBy lets next finish content of its own before a request of the old leader is
// sent on.
func (r *rig) overtakenBy(next *rig, manifests ...string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return next.before(func(client *rig) {
		client.epoch = r.epoch
		client.use("1.0.2", manifests...)
		next.epoch, next.content = client.epoch, client.content
		client.mustComplete()
	})
}

// A leader that is deposed in the middle of a pass meets what its successor
// wrote (NoStaleWrite): between its list and its write, the new content lands.
func TestStaleLeader(t *testing.T) {
	tests := []struct {
		name, verb string
		before     []string // what is there
		stale      []string // what the old leader was about to make
	}{
		{"that was about to update", "PATCH", []string{configMap("a", "x: one")}, []string{configMap("a", "x: two")}},
		{"that was about to create", "POST", []string{configMap("b", "x: one")}, []string{configMap("a", "x: two"), configMap("b", "x: one")}},
		{"that was about to remove", "DELETE", []string{configMap("a", "x: one"), configMap("b", "x: one")}, []string{configMap("b", "x: one")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", tt.before...)
			r.mustComplete()
			next := r.successor()
			r.use("1.0.1", tt.stale...)
			r.wire.once(isVerb(tt.verb, "/configmaps"), r.overtakenBy(next, configMap("a", "x: newest"), configMap("b", "x: one")))
			out, err := r.pass()
			if err != nil || out.Complete || out.HighestEpoch != next.epoch {
				t.Errorf("got %+v, %v, want an incomplete pass that saw epoch %d", out, err, next.epoch)
			}
			if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "newest" {
				t.Errorf("got x = %v, want what the new leader wrote", got)
			}
			if mark := next.survey(); len(mark.Entries) != 1 || mark.Entries[0] != next.content {
				t.Errorf("got %+v, want the new leader's mark", mark)
			}
		})
	}
	t.Run("that was about to finish leaves the mark alone", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		r.mustComplete()
		next := r.successor()
		r.use("1.0.1", configMap("a", "x: one"))
		r.wire.once(isVerb("PUT", "/configmaps/set"), r.overtakenBy(next, configMap("a", "x: one")))
		if out, err := r.pass(); err == nil || out.Complete {
			t.Errorf("got %+v, %v, want an error: another leader wrote the mark", out, err)
		}
		if mark := next.survey(); len(mark.Entries) != 1 || mark.Entries[0] != next.content {
			t.Errorf("got %+v, want the new leader's mark", mark)
		}
	})
}

// Both leaders of one content write the same, so that a fail-over writes nothing
// and two leaders at once do no harm.
func TestTwoLeadersOfOneContent(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	next := r.successor()
	next.epoch, next.content = r.epoch, r.content
	next.cfg.Bundle.Set(r.cfg.Bundle.Get())
	r.wire.once(isVerb("POST", "/configmaps"), next.before(func(client *rig) { client.mustComplete() }))
	r.mustComplete()
	if got := r.report(); got.Objects.Applied != 0 {
		t.Errorf("got %+v, want nothing applied: the other leader did it", got)
	}
}

// What was decided as the first reconciliation is not carried out once another leader
// finished it: its late entry would close gates when
// the status is rebuilt.
func TestUnfounded(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	r.use("1.0.1", configMap("a", "x: two"))
	out, err := r.work(protocol.Work{Content: r.content, First: true, LeaderEpoch: 8})
	if err != nil || out.Complete || !out.Unfounded {
		t.Errorf("got %+v, %v, want an unfounded pass", out, err)
	}
	if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "one" {
		t.Errorf("x = %v was written", got)
	}
}

// Other content that has taken the epoch meanwhile: the leader has to choose a
// higher one, or a late write of the other would pass for its own.
func TestEpochTaken(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	r.mustComplete()
	r.use("1.0.1", configMap("a", "x: two"))
	taken := r.content
	taken.Epoch-- // that of 1.0.0
	out, err := r.work(protocol.Work{Content: taken, LeaderEpoch: 8})
	if err != nil || out.Complete || out.HighestEpoch <= taken.Epoch {
		t.Errorf("got %+v, %v, want an epoch above %d", out, err, taken.Epoch)
	}
	if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "one" {
		t.Errorf("x = %v was written", got)
	}
}

package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
)

type happening struct {
	Time, Until        string
	Kind, Node, Reason string
	Count              int
}

func (s *sidecar) history(query string) []happening {
	s.Helper()
	code, body := s.get("/history" + query)
	var out []happening
	if err := json.Unmarshal([]byte(body), &out); code != 200 || err != nil {
		s.Fatalf("got %d %s, %v", code, body, err)
	}
	return out
}

// TestRun_history: closings that no snapshot and no scrape sees are counted, in the metric and in
// the history, and the next sidecar of the node keeps them.
func TestRun_history(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg := configure(t, "http://"+server.Addr(), api)
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	for range 20 {
		if _, err := fleet.SetCordon(t.Context(), s.app.etcd, "me", fleet.CordonChange{Cordon: protocol.Cordon{Message: "work"}, Force: true}); err != nil {
			t.Fatal(err)
		}
		s.awaitGate(protocol.Cordoned)
		if _, err := fleet.SetCordon(t.Context(), s.app.etcd, "me", fleet.CordonChange{Force: true}); err != nil {
			t.Fatal(err)
		}
		s.awaitGate(protocol.Ready)
	}
	count := 0
	for _, e := range s.history("?kind=gate&node=me") {
		if e.Reason == string(protocol.Cordoned) {
			count += e.Count
		}
	}
	if count != 20 {
		t.Errorf("got %d closings, want 20: %+v", count, s.history(""))
	}
	if _, metrics := s.get("/metrics"); !strings.Contains(metrics, `lockstep_gate_changes_total{reason="Cordoned"} 20`) {
		t.Error("the metric has not counted 20 closings")
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if resp, err := raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 1 {
		t.Fatal(resp, err)
	}
	next := start(t, cfg)
	next.awaitReason(protocol.Ready)
	next.awaitHistory("that the node was stopped", func(e happening) bool {
		return e.Kind == "gate" && e.Reason == string(protocol.ShuttingDown) && e.Until != ""
	})
}

func (s *sidecar) awaitGate(want protocol.Reason) {
	s.Helper()
	for {
		v, gateChanged := s.app.roles.Gate().Verdict().Load()
		if v.Reason == want {
			return
		}
		select {
		case <-gateChanged:
		case <-s.Context().Done():
			s.Fatal("the gate did not become ", want)
		}
	}
}

func (s *sidecar) awaitHistory(what string, ok func(happening) bool) {
	s.Helper()
	var last []happening
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		last = s.history("")
		if slices.ContainsFunc(last, ok) {
			return
		}
	}
	s.Fatalf("%s: not seen: %+v", what, last)
}

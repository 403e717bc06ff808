package app

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// bundleReport is the part of /status about bundles.
type bundleReport struct {
	Node  struct{ BundleDigest, BundleProblem string }
	Ready struct{ Ready bool }
	Fleet struct {
		Nodes []struct{ ID, BundleDigest string }
	}
	Warnings []struct{ Reason, Message string }
}

func (s *sidecar) awaitBundle(what string, ok func(bundleReport) bool) bundleReport {
	s.Helper()
	deadline := time.After(time.Minute)
	for {
		_, snapshotChanged := s.app.show.Snapshot().Load()
		_, body := s.get("/status")
		var r bundleReport
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			s.Fatal(err)
		}
		if ok(r) {
			return r
		}
		select {
		case <-snapshotChanged:
		case <-deadline:
			s.Fatalf("%s: not seen in time; last: %s", what, body)
		}
	}
}

func writeBundle(t *testing.T, dir, header, x string) {
	t.Helper()
	for name, text := range map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: t}\n" + header + "\n",
		"a.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {x: " + x + "}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A changed directory is put into use without closing the gate. A bundle that is
// invalid or of another release is rejected: the last valid one stays in use.
func TestRun_bundleReload(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	putStatus(t, raw)
	dir := t.TempDir()
	writeBundle(t, dir, "release: 1.0.0", "one")
	cfg := configure(t, server.Endpoints()[0], api)
	cfg.Bundle = dir
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	first := s.awaitBundle("the record", func(r bundleReport) bool {
		return len(r.Fleet.Nodes) == 1 && r.Fleet.Nodes[0].BundleDigest == r.Node.BundleDigest
	})
	revision := s.app.roles.Registrar().Registration().Get().Revision

	writeBundle(t, dir, "release: 1.0.0", "two")
	second := s.awaitBundle("the other objects", func(r bundleReport) bool {
		return r.Node.BundleDigest != first.Node.BundleDigest && r.Fleet.Nodes[0].BundleDigest == r.Node.BundleDigest
	})
	if now := s.app.roles.Registrar().Registration().Get().Revision; !second.Ready.Ready || now != revision {
		t.Errorf("got ready %t and registration %d, want the gate left alone at %d", second.Ready.Ready, now, revision)
	}

	writeBundle(t, dir, "release: 1.1.0", "three")
	r := s.awaitBundle("the rejection of another release", func(r bundleReport) bool { return r.Node.BundleProblem != "" })
	if !strings.Contains(r.Node.BundleProblem, "restart it to upgrade") || r.Node.BundleDigest != second.Node.BundleDigest {
		t.Errorf("got %+v, want the last valid bundle and what to do", r.Node)
	}
	if w := r.Warnings; len(w) > 0 && w[0].Reason == "BundleRejected" {
		t.Errorf("got %+v: it is valid, and a restart is what to do", w)
	}
	writeBundle(t, dir, "release: 1.0.0\nminApiserverRelease: 0.9.0", "three")
	s.awaitBundle("the rejection of other constraints", func(r bundleReport) bool {
		return strings.Contains(r.Node.BundleProblem, "other constraints")
	})
	writeBundle(t, dir, "release: 1.0.0", "[")
	s.awaitBundle("the place of the mistake", func(r bundleReport) bool {
		return strings.Contains(r.Node.BundleProblem, filepath.Join(dir, "a.yaml")+":")
	})
	if code, body := s.get("/metrics"); code != 200 || !strings.Contains(body, "lockstep_reconcile_bundle_rejected 1") {
		t.Errorf("the metric does not show it")
	}
	writeBundle(t, dir, "release: 1.0.0", "one")
	s.awaitBundle("the first bundle again", func(r bundleReport) bool {
		return r.Node.BundleProblem == "" && r.Node.BundleDigest == first.Node.BundleDigest
	})
}

// Nodes of one release with different bundles are named.
func TestRun_bundleMismatch(t *testing.T) {
	server, api := etcdtest.New(t), newCountingAPI(t)
	raw := server.Client(t)
	dir := t.TempDir()
	writeBundle(t, dir, "release: 1.0.0", "one")
	cfg := configure(t, server.Endpoints()[0], api)
	cfg.Bundle = dir
	log := &lines{seen: make(chan string, 1000)} // more than are logged
	s := startLogging(t, cfg, slog.New(slog.NewTextHandler(log, nil)))
	other := protocol.Node{
		ID: "other", Roles: protocol.Roles{Controller: true}, Digest: "sha256:other",
		Version: protocol.Version{Release: protocol.Release{Major: 1}},
	}
	if _, err := raw.Put(t.Context(), keys.Node("other"), string(fleet.Encode(other))); err != nil {
		t.Fatal(err)
	}
	s.awaitBundle("the warning", func(r bundleReport) bool { // and others may come: no node leads yet
		for _, w := range r.Warnings {
			if strings.Contains(w.Message, "nodes of release 1.0.0 have different bundles") && strings.Contains(w.Message, "sha256:other on other") {
				return true
			}
		}
		return false
	})
	if _, body := s.get("/metrics"); !strings.Contains(body, "lockstep_fleet_bundle_mismatches 1") {
		t.Error("the metric does not show it")
	}
	log.await(t, "level=WARN msg=\"nodes of one release have different bundles\"")
}

// lines is a log that can be waited for.
type lines struct{ seen chan string }

func (l *lines) Write(p []byte) (int, error) {
	l.seen <- string(p)
	return len(p), nil
}

func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.After(time.Minute); ; {
		select {
		case line := <-l.seen:
			if strings.Contains(line, text) {
				return
			}
		case <-deadline:
			t.Fatalf("the log does not say %s", text)
		}
	}
}

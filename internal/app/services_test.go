package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// withServices configures a sidecar with one service: a shell that writes into a log
// when it starts and when it stops. It is ready when the test writes a file.
func withServices(t *testing.T, cfg Config) (_ Config, log, ready string) {
	t.Helper()
	dir := t.TempDir()
	log, ready = filepath.Join(dir, "log"), filepath.Join(dir, "ready")
	cfg.Services, cfg.DataDir, cfg.NodeAddress = filepath.Join(dir, "services"), filepath.Join(dir, "data"), "127.0.0.1"
	if err := os.Mkdir(cfg.Services, 0o700); err != nil {
		t.Fatal(err)
	}
	writeService(t, cfg, log, ready, "one")
	return cfg, log, ready
}

func writeService(t *testing.T, cfg Config, log, ready, word string) {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: api}
role: kubernetes_controller
restart: immediately
process:
  command: [/bin/sh, -c]
  args:
  - |
    trap 'echo stop %[3]s >> %[1]s; exit' TERM
    echo start %[3]s $(NODE_ID) $(ETCD_SERVERS) >> %[1]s
    while ! test -e %[4]s; do sleep 0.05; done
readiness:
  exec: {command: [/bin/sh, -c, "test -e %[2]s"]}
stopTimeout: 20s
`, log, ready, word, filepath.Join(filepath.Dir(log), "end"))
	if err := os.WriteFile(filepath.Join(cfg.Services, "api.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// awaitLog waits until the log contains these lines.
func awaitLog(t *testing.T, log string, all ...string) {
	t.Helper()
	want, got := strings.Join(all, "\n")+"\n", ""
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for backoff.Sleep(ctx, 10*time.Millisecond) {
		text, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if got = string(text); got == want {
			return
		}
	}
	t.Fatalf("the log has %q, want %q", got, want)
}

// awaitElectionShown waits until the presence shows this state in the election.
func (s *sidecar) awaitElectionShown(want protocol.ElectionState) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		now, next := s.app.shown.Load()
		if now.Election == want {
			return
		}
		if !event.Wait(ctx, next) {
			s.Fatalf("the presence has %q, want %q", now.Election, want)
		}
	}
}

// One sidecar: its service starts, is waited for, is started again when its file
// changes, and stops with the sidecar. The roles are kept.
func TestServices(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg, log, ready := withServices(t, configure(t, server.Endpoints()[0], api))
	s := start(t, cfg)
	first := "start one me " + server.Endpoints()[0]
	awaitLog(t, log, first)
	s.awaitReason(protocol.ServicesNotReady)
	s.awaitElectionShown(protocol.Withdrawn) // an older node may lead meanwhile
	resp, err := raw.Get(t.Context(), keys.Node("me"))
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("the record was written before the services were ready: %v, %v", resp.Kvs, err)
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitReason(protocol.Ready)
	s.awaitElectionShown(protocol.Ineligible) // a newer node is alive
	// The record is read after it was written, and the gate may be open before that.
	s.awaitStatus("the roles of the record", func(r statusReport) bool { return r.Roles.Source == "cluster" })
	_, body := s.get("/status")
	var shown report.Status
	if err := json.Unmarshal([]byte(body), &shown); err != nil {
		t.Fatal(err)
	}
	if got := shown.Services; len(got) != 1 || got[0].Name != "api" || got[0].Phase != "Running" || !got[0].Ready {
		t.Errorf("services in /status: %+v", got)
	}
	if got := shown.Roles; got.Source != "cluster" || len(got.Local) != 1 || got.Local[0] != protocol.RoleController {
		t.Errorf("roles in /status: %+v", got)
	}

	writeService(t, cfg, log, ready, "two")
	second := "start two me " + server.Endpoints()[0]
	awaitLog(t, log, first, "stop one", second)

	// An invalid file is rejected, and the services go on.
	isWarned := func(r statusReport) bool {
		return slices.ContainsFunc(r.Warnings, func(w struct{ Reason string }) bool { return w.Reason == string(warn.ServicesRejected) })
	}
	broken := filepath.Join(cfg.Services, "broken.yaml")
	if err := os.WriteFile(broken, []byte("kind: Service\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.awaitStatus("a warning", isWarned)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	s.awaitStatus("no warning", func(r statusReport) bool { return !isWarned(r) })

	if err := s.stop(); err != nil {
		t.Error(err)
	}
	awaitLog(t, log, first, "stop one", second, "stop two")
	kept, err := os.ReadFile(datadir.Layout(cfg.DataDir).Roles())
	if want := `{"roles":["kubernetes_controller"],"servicesRelease":"0.1.0"}`; err != nil || strings.TrimSpace(string(kept)) != want {
		t.Errorf("on disk: %s, %v; want %s", kept, err, want)
	}
}

// With KillMode=control-group, systemd stops the services with the sidecar. They are not started again.
func TestServices_stoppedWithSidecar(t *testing.T) {
	t.Parallel()
	server, _, api := ledByNewer(t)
	cfg, log, ready := withServices(t, configure(t, server.Endpoints()[0], api))
	cfg.ShutdownDelay = time.Second
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	started := "start one me " + server.Endpoints()[0]
	awaitLog(t, log, started)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	s.awaitReason(protocol.ShuttingDown)
	if err := os.WriteFile(filepath.Join(filepath.Dir(log), "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	awaitLog(t, log, started)
}

// Without etcd, a sidecar starts the services that its node ran before.
func TestServices_withoutEtcd(t *testing.T) {
	api := newCountingAPI(t)
	cfg, log, _ := withServices(t, configure(t, "http://127.0.0.1:1", api))
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(datadir.Layout(cfg.DataDir).Roles(), []byte(`{"roles":["kubernetes_controller"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	awaitLog(t, log, "start one me http://127.0.0.1:1")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	awaitLog(t, log, "start one me http://127.0.0.1:1", "stop one")
}

// A second sidecar on the same data directory neither starts nor stops anything.
func TestServices_inUse(t *testing.T) {
	server, _, api := ledByNewer(t)
	cfg, log, ready := withServices(t, configure(t, server.Endpoints()[0], api))
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := datadir.Lock(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	s.awaitReason(protocol.ServicesNotReady)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(log); !os.IsNotExist(err) {
		t.Errorf("a service has run: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files and docs/flags.md")

// noon is the time in all tests.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// exitUntyped is the exit code in scripts of a command that prints another one that cannot be typed.
const exitUntyped = 99

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sidecar": func() {
		var out, errs bytes.Buffer
		p := program{
			Program: console.Program{
				Stdout: io.MultiWriter(os.Stdout, &out), Stderr: io.MultiWriter(os.Stderr, &errs), LookupEnv: os.LookupEnv,
				Now: func() time.Time { return noon }, PodLogs: os.Getenv("POD_LOGS"),
			},
			environ: os.Environ, run: fakeRun,
		}
		code := p.main(context.Background(), os.Args[1:])
		for _, problem := range printedProblems(os.Args[1:], out.String()+errs.String()) {
			fmt.Fprintln(os.Stderr, problem)
			code = exitUntyped
		}
		os.Exit(code)
	}})
}

// fakeRun replaces runSidecar in scripts. FAKE_RUN says how it ends.
func fakeRun(ctx context.Context, opts lockstep.Options, log *slog.Logger) error {
	log.Debug("debugging", "fake", true)
	log.Info("running", "fake", true)
	switch os.Getenv("FAKE_RUN") {
	case "fail":
		return errors.New("load bundle: bundle.yaml:3: unknown field \"relase\"")
	case "signal": // the first signal ends ctx
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case "hangup": // that of a terminal that is closed does, too
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case "signals": // a later one ends the process
		for {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(opts)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *rewrite,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			f := newFakeSidecar()
			env.Defer(f.Close)
			env.Setenv("SERVER", f.URL)
			env.Values[fakeKey{}] = f
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gate":     gateCommand,
			"followed": followedCommand,
		},
	})
}

type fakeKey struct{}

// fakeSidecar is the real HTTP API over a snapshot that scripts change.
type fakeSidecar struct {
	*httptest.Server
	snapshot *event.Value[httpapi.Snapshot]
	followed chan struct{} // closed at the first /status?watch
}

func newFakeSidecar() *fakeSidecar {
	f := &fakeSidecar{snapshot: event.New(httpapi.Snapshot{}), followed: make(chan struct{})}
	api, err := httpapi.New(httpapi.Config{Snapshot: f.snapshot, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	var once sync.Once
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Has("watch") && !q.Has("turn") {
			once.Do(func() { close(f.followed) })
		}
		api.Handler().ServeHTTP(w, r)
	}))
	return f
}

// gateCommand publishes a snapshot: gate STATE.
func gateCommand(ts *testscript.TestScript, _ bool, args []string) {
	states := map[string]httpapi.Snapshot{
		"starting":         {},
		"reconcilerTooOld": waiting(),
		"awaits":           awaits(),
		"ready":            ready(),
		"held":             held(),
	}
	snap, found := states[args[0]]
	if !found {
		ts.Fatalf("unknown state %q", args[0])
	}
	ts.Value(fakeKey{}).(*fakeSidecar).snapshot.Set(snap)
}

// followedCommand waits until a client watches the status.
func followedCommand(ts *testscript.TestScript, _ bool, _ []string) {
	<-ts.Value(fakeKey{}).(*fakeSidecar).followed
}

func release(major, minor, patch int64) protocol.Version {
	return protocol.Version{Release: protocol.Release{Major: major, Minor: minor, Patch: patch}}
}

func waiting() httpapi.Snapshot {
	return httpapi.Snapshot{
		Local: protocol.Local{ID: "cp-2", Version: release(1, 1, 0)},
		Gate: httpapi.Gate{
			Verdict: protocol.Verdict{Reason: protocol.ReconcilerTooOld, Message: "this node needs 1.1.0 or newer and waits \x1b[2Jfor the leader"},
			Since:   noon.Add(-90 * time.Second),
		},
		Status: protocol.StatusView{Kind: protocol.StatusAbsent},
		Etcd:   httpapi.Etcd{Reached: true, Etcd: report.Etcd{LastContact: report.At(noon.Add(-3 * time.Hour))}},
	}
}

func ready() httpapi.Snapshot {
	s := awaits()
	s.Fleet.Records = s.Fleet.Records[:1]
	s.Status.Status.State, s.Status.Status.Version = protocol.Done, release(1, 1, 0)
	s.Election.Step = protocol.Step{Kind: protocol.StepHold, Rule: protocol.KeepTarget, Message: "all objects match the bundle"}
	s.Reconcile = report.Reconcile{
		Running:     true,
		LastSuccess: report.At(noon.Add(-time.Minute)), Objects: report.Objects{Desired: 12, Applied: 2, Unchanged: 10, Pruned: 1},
		Drift: report.Drift{Repairs: 3, LastRepair: report.At(noon.Add(-5 * time.Second))},
	}
	s.Warnings, s.Etcd.Warnings = nil, nil
	return s
}

// held is a leader whose bundle drops more than the brake lets it remove.
func held() httpapi.Snapshot {
	s := ready()
	s.Reconcile.Running, s.Reconcile.Drift = false, report.Drift{}
	s.Reconcile.Objects = report.Objects{Desired: 3, Unchanged: 3, Owed: 11}
	s.Reconcile.PruneHeld = "the bundle drops 11 of 14 objects, more than half; if that is meant, start the sidecars with --allow-mass-prune"
	s.Warnings = []protocol.Warning{{Reason: warn.RemovalsHeld, Since: noon.Add(-12 * time.Second), Message: "11 objects that the bundle dropped are not removed: " + s.Reconcile.PruneHeld}}
	s.Fleet.Records[0].Presence.Warnings = s.Warnings
	return s
}

// awaits is a leader that two nodes hold up.
func awaits() httpapi.Snapshot {
	controller := protocol.Roles{Controller: true}
	return httpapi.Snapshot{
		Local: protocol.Local{ID: "cp-1", Version: protocol.Version{Release: protocol.Release{Major: 1, Minor: 1}, Build: "g0abc"}},
		Roles: controller,
		Gate: httpapi.Gate{
			Verdict: protocol.Verdict{Ready: true, Reason: protocol.Ready, Message: "release 1.1.0 fits the objects"}, Since: noon.Add(-5 * time.Hour),
		},
		Status: protocol.StatusView{Kind: protocol.StatusPresent, Revision: 40, Status: protocol.Status{
			State: protocol.Working, Version: release(1, 0, 0), Leader: "cp-1", Epoch: 30, DrainedEpoch: 20,
			Digest: "sha256:aa", ContentRelease: protocol.Release{Major: 1}, ContentEpoch: 2,
		}},
		StatusUpdatedAt: noon.Add(-50 * time.Hour),
		Fleet: protocol.Fleet{Revision: 50, Records: []*protocol.Record{
			{
				ID: "cp-1", Node: protocol.Node{ID: "cp-1", Roles: controller, Version: release(1, 1, 0), Address: "http://10.0.0.1:8086", Digest: "sha256:bb"},
				Alive: true, Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Election: protocol.Leading},
			},
			{
				ID: "cp-2", Node: protocol.Node{ID: "cp-2", Roles: controller, Version: release(1, 0, 0)},
				Alive: true, Presence: protocol.Presence{Reason: protocol.ShuttingDown, Election: protocol.Ineligible},
			},
			{ID: "cp-3", Problem: "not a Node"},
		}},
		Election: httpapi.Election{
			State: protocol.Leading, Leader: "cp-1", Epoch: 30, Eligibility: protocol.Eligibility{Eligible: true},
			Step: protocol.Step{Kind: protocol.StepAwait, Rule: protocol.WaitForNodes, Message: "2 registered nodes do not fit", Blockers: []protocol.Blocker{
				{Node: "cp-2", Release: protocol.Release{Major: 1}, Reason: protocol.ReleaseTooOld, Message: "runs release 1.0.0; upgrade it"},
				{Node: "cp-3", Reason: protocol.RecordCorrupt, Message: "sidecar node remove cp-3"},
			}},
			Absences: map[protocol.NodeID]report.Absence{
				"cp-2": {GoneSince: report.At(noon.Add(-3 * time.Minute)), PassedOverAt: report.At(noon.Add(7 * time.Minute))},
				"cp-3": {GoneSince: report.At(noon.Add(-50 * time.Second))},
			},
		},
		Reconcile: report.Reconcile{
			LastError: "1 object failed", Objects: report.Objects{Desired: 12, Failed: 1, Unchanged: 11, Owed: 3},
			Failures: []report.Failure{{Object: `StorageClass "x"`, Message: "refused", Source: "x.yaml:3", Since: report.At(noon.Add(-12 * time.Second)),
				Remedy: `correct the manifest (x.yaml:3) or what rejects it, or give it the annotation lockstep.dev/required: "false"`}},
		},
		Etcd:     httpapi.Etcd{Reached: true, Etcd: report.Etcd{Connected: true, Revision: 51, Warnings: []string{"etcd 3.5.1 has known faults"}}},
		Warnings: []protocol.Warning{{Message: "the kubeconfig does not lead to a local address"}},
	}
}

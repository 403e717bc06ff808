package page_test

import (
	"context"
	_ "embed" // for inspect.js
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/test/page"
)

var shots = flag.String("shots", "", "write a picture of every situation to this `directory`")

// captured has what /status showed in situations that test/e2e caused on real parts.
const captured = "../../cmd/sidecar/testdata/situations"

// startBrowser starts Chromium until the test ends, and fails the test if the page reports
// an error meanwhile.
func startBrowser(t *testing.T) *page.Browser {
	t.Helper()
	path, err := page.Find()
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v; Debian and Ubuntu have it: apt-get install chromium", err)
	}
	dir, err := os.MkdirTemp("", "lockstep-page-")
	if err != nil {
		t.Fatal(err)
	}
	b, err := page.Start(t.Context(), path, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, problem := range b.Problems() {
			t.Errorf("the page: %s", problem)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err) // a process of Chromium may still write there
		}
	})
	return b
}

// servePage serves the page with a sidecar's own handler, of a node that knows nothing yet.
func servePage(t *testing.T) string {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{
		Snapshot: event.New(httpapi.Snapshot{}), Log: slog.New(slog.DiscardHandler), History: func(context.Context) []history.Entry { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.StripPrefix("/lockstep", api.Handler()))
	t.Cleanup(server.Close) // waits for the stream: the browser ends before
	return server.URL + "/lockstep/"
}

// report is one that was captured, and when.
type report struct {
	name string
	raw  json.RawMessage
	now  time.Time
}

func reports(t *testing.T) []report {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(captured, "*", "*.json"))
	if err != nil || len(paths) < 40 {
		t.Fatalf("got %d reports in %s: %v", len(paths), captured, err)
	}
	var out []report
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".now")
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(at)))
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".json")
		out = append(out, report{name, raw, now})
	}
	return out
}

// showReport gives the page a report, at the time at which it was captured.
func showReport(t *testing.T, b *page.Browser, r report) {
	t.Helper()
	script := fmt.Sprintf("Date.now = () => %d; show(%s); scrollTo(0, 0)", r.now.UnixMilli(), r.raw)
	if err := b.Eval(t.Context(), script, nil); err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
}

// inspect finds in the page what a person would stumble over.
//
//go:embed inspect.js
var inspect string

// views are screens that people have. The narrow ones are phones.
var views = []page.View{
	{Width: 390, Height: 844}, {Width: 320, Height: 640, Dark: true}, {Width: 960, Height: 600}, {Width: 1280, Height: 800, Dark: true},
}

// TestLayout shows every captured situation on every screen. The bar is green only if
// nothing is wrong, and what is wrong is on the first screen.
func TestLayout(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if err := b.Resize(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		for _, r := range reports(t) {
			showReport(t, b, r)
			wantLayout(t, b, fmt.Sprintf("%s at %d", r.name, v.Width))
			wantBar(t, b, r)
			takeShot(t, b, r.name, v)
			if r.name == "object-refused/cp-1" && v == views[0] {
				writeImage(t, b, "page-failure.png")
			}
		}
	}
}

// wantLayout reports what inspect finds.
func wantLayout(t *testing.T, b *page.Browser, name string) {
	t.Helper()
	var problems []string
	if err := b.Eval(t.Context(), inspect, &problems); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", name, problem)
	}
}

// takeShot writes a picture for the person who changes the page.
func takeShot(t *testing.T, b *page.Browser, name string, v page.View) {
	t.Helper()
	if *shots == "" {
		return
	}
	png, err := b.Screenshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("%s-%d.png", strings.ReplaceAll(name, "/", "-"), v.Width)
	if err := os.WriteFile(filepath.Join(*shots, file), png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// essence is the part of a report that decides the color of the bar.
type essence struct {
	Ready struct {
		Ready  bool
		Reason string
	}
	Reconciler struct{ Kind string }
	Etcd       struct {
		Connected bool
		Problem   string
	}
	Services         []struct{ State string }
	Cluster          *struct{ Members []struct{ Healthy bool } }
	Warnings         []any
	UpgradeObstacles []any
	Election         struct{ State string }
	Fleet            struct {
		Nodes []struct {
			Alive    bool
			Problem  string
			Warnings []struct{ Reason string }

			Ready, Serves bool
			ServesReason  string
		}
		Blockers []any
	}
	Reconcile struct {
		TotalFailures int
		Drift         struct{ Fights []any }
	}
}

// wantBar compares the bar with the report.
func wantBar(t *testing.T, b *page.Browser, r report) {
	t.Helper()
	var e essence
	if err := json.Unmarshal(r.raw, &e); err != nil {
		t.Fatal(err)
	}
	failed := e.Reconcile.TotalFailures > 0
	closed := !e.Ready.Ready && e.Ready.Reason != "NotController" && e.Ready.Reason != "Starting" // nothing is wrong then
	bad := closed || !e.Etcd.Connected || e.Etcd.Problem != "" || failed || e.Reconciler.Kind == "corrupt"
	for _, service := range e.Services {
		bad = bad || service.State == "BackOff"
	}
	if e.Cluster != nil {
		for _, member := range e.Cluster.Members {
			bad = bad || !member.Healthy
		}
	}
	count := len(e.Warnings) + len(e.UpgradeObstacles) + len(e.Fleet.Blockers) + len(e.Reconcile.Drift.Fights)
	for _, n := range e.Fleet.Nodes {
		count += len(n.Warnings)
		bad = bad || !n.Alive || n.Problem != "" || n.Ready && !n.Serves && n.ServesReason != ""
		for _, w := range n.Warnings {
			failed = failed || w.Reason == "ObjectFailed"
		}
	}
	want := "good"
	switch {
	case bad || failed:
		want = "bad"
	case count > 0 || e.Election.State == "withdrawn":
		want = "wait"
	}
	var got struct {
		Class           string
		Failures, Gates string
	}
	if err := b.Eval(t.Context(), `({class: document.getElementById("sum").className, gates: document.getElementById("gate").className,
		failures: document.querySelector("#sum [href='#failures']")?.textContent ?? ""})`, &got); err != nil {
		t.Fatal(err)
	}
	if got.Class != want {
		t.Errorf("%s: the bar is %q, want %q", r.name, got.Class, want)
	}
	if got.Gates == "good" && want != "good" {
		t.Errorf("%s: the gate is green, and the bar is %q", r.name, want)
	}
	if (got.Failures != "") != failed {
		t.Errorf("%s: the bar counts %q failures, want some: %t", r.name, got.Failures, failed)
	}
}

// more is a report of a later version, with a node whose address is no page.
const more = `{"node": {"id": "cp-1", "new": 1}, "new": {"a": []}, "fleet": {"nodes": [{"id": "cp-2", "alive": true, "new": {}, "address": "javascript:alert(1)", "reason": 7}]}}`

// TestStrangeReports shows reports of other versions: what is missing is left out, and the
// rest is shown. Long names fit too.
func TestStrangeReports(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"nothing": `{}`,
		"nulls":   `{"node": null, "ready": null, "fleet": {"nodes": null, "blockers": null}, "warnings": null, "cluster": {"state": "Running", "members": null}}`,
		"less": `{"node": {"id": "cp-1", "release": "1.0.0"}, "ready": {"ready": true}, "etcd": {"connected": true}, "upgradeReady": true,
			"fleet": {"nodes": [{"id": "cp-1", "roles": ["kubernetes_controller"], "alive": true}]}, "services": [{"name": "kube-apiserver"}], "warnings": [{"message": "look"}],
			"reconcile": {"failures": [{"object": "ConfigMap \"a/b\""}], "strangers": [{"object": "x"}]}, "kubernetesService": {"enabled": true, "nodes": [{"id": "a"}]}}`,
		"more": more,
		"long": strings.ReplaceAll(`{"node": {"id": "LONG", "release": "1.0.0"}, "ready": {"ready": false, "reason": "ServicesNotReady"}, "warnings": [{"reason": "APIServersDiffer", "message": "LONG"}],
			"fleet": {"nodes": [{"id": "LONG", "release": "1.0.0", "alive": true, "blocks": true, "election": "ineligible", "reason": "Cordoned", "bundle": "LONG", "ephemeral": true,
				"expiresAt": "2001-09-09T01:46:40Z", "apiserverVersion": "v1.36.3-alpha.1+0123456789abcdef", "cordon": {"since": "2001-01-01T00:00:00Z", "by": "root@LONG"}}, {"id": "b", "bundle": "b"}]},
			"cluster": {"state": "Running", "members": [{"node": "LONG", "address": "2001:db8:1111:2222:3333:4444:5555:6666", "problem": "LONG"}]}}`, "LONG", strings.Repeat("controlplane", 5)),
	} {
		for _, v := range views {
			if err := b.Resize(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			showReport(t, b, report{name, json.RawMessage(raw), time.Unix(1e9, 0)})
			wantLayout(t, b, fmt.Sprintf("%s at %d", name, v.Width))
			takeShot(t, b, name, v)
		}
	}
	showReport(t, b, report{"more", json.RawMessage(more), time.Unix(1e9, 0)})
	var links int
	if err := b.Eval(t.Context(), `document.querySelectorAll("#fleet a").length`, &links); err != nil || links != 0 {
		t.Errorf("got %d links (%v), want none to an address that is no page", links, err)
	}
}

// A rollback that is under way is a fact of its own, with its command.
func TestRollback(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	const raw = `{"node": {"id": "cp-1"}, "upgradeObstacles": [{"reason": "RollingBack", "message": "it waits"}], "reconciler": {"rollback": {"to": "1.0.0", "by": "root@cp-1", "since": "2001-09-09T01:00:00Z",
		"until": "2001-09-10T01:00:00Z", "blockers": [], "message": "it waits; to give it up: sidecar rollback end --etcd-servers=http://127.0.0.1:2379"}}}`
	showReport(t, b, report{"rollback", json.RawMessage(raw), time.Unix(1e9, 0)})
	var got string
	if err := b.Eval(t.Context(), `document.querySelector("#facts").textContent`, &got); err != nil || !strings.Contains(got, "to 1.0.0 by root@cp-1") {
		t.Errorf("got the facts %q, %v", got, err)
	}
	var bar string
	if err := b.Eval(t.Context(), `document.querySelector("#sum").textContent`, &bar); err != nil || !strings.Contains(bar, "rollback to 1.0.0 in progress") {
		t.Errorf("got the bar %q, %v", bar, err)
	}
	var commands string
	if err := b.Eval(t.Context(), `[...document.querySelectorAll("#facts .command")].map((c) => c.textContent).join(" ")`, &commands); err != nil ||
		!strings.Contains(commands, "sidecar rollback end --etcd-servers=http://127.0.0.1:2379") {
		t.Errorf("got the commands %q, %v", commands, err)
	}
}

// What this node knows of the fleet itself, other nodes do not repeat with counts of their own.
func TestWarnings_ofFleet(t *testing.T) {
	url := servePage(t)
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	showReport(t, b, reports(t)[slices.IndexFunc(reports(t), func(r report) bool { return r.name == "no-majority/a" })])
	var got string
	if err := b.Eval(t.Context(), `document.querySelector("#warnings").textContent`, &got); err != nil || strings.Count(got, "EtcdLeaderChanges") != 1 {
		t.Errorf("got %q, %v", got, err)
	}
}

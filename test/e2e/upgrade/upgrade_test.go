package upgrade

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestBundles(t *testing.T) {
	b := mustWriteBundles(t)
	want := map[string][]string{
		"Namespace platform":              {"1.0.0"},
		"ConfigMap platform/settings":     {"1.0.0", "1.2.0", "1.0.0"},
		"ClusterRole platform:node-agent": {"1.0.0", "1.1.0"},
		"PriorityClass platform-critical": {"1.0.0"},
		"RuntimeClass platform-legacy":    {"1.0.0", formDeleted},
		"StorageClass platform-local":     {"1.1.0"},
	}
	got := map[string][]string{}
	for _, obj := range b.all() {
		got[ref(obj)] = b.forms(ref(obj))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("forms (-want +got):\n%s", diff)
	}
	minimums := map[string]string{"1.0.0": "0.9.0", "1.1.0": "1.0.0", "1.2.0": "1.1.0"}
	if diff := cmp.Diff(minimums, b.minimum); diff != "" {
		t.Errorf("minReconcilerRelease (-want +got):\n%s", diff)
	}
	for _, release := range b.releases() {
		if _, err := os.Stat(filepath.Join(b.path(release), "bundle.yaml")); err != nil {
			t.Errorf("bundle %s is not on disk: %v", release, err)
		}
	}
}

func TestHistory(t *testing.T) {
	b := mustWriteBundles(t)
	settings := "ConfigMap platform/settings"
	tests := []struct {
		name  string
		forms []string // of settings; the other objects are as they should be
		ok    bool
	}{
		{"as in the bundles", []string{"1.0.0", "1.2.0", "1.0.0"}, true},
		{"two writers fight", []string{"1.0.0", "1.2.0", "1.0.0", "1.2.0", "1.0.0"}, false},
		{"written for no reason", []string{"1.0.0", "1.0.0", "1.2.0", "1.0.0"}, false},
		{"deleted and created again", []string{"1.0.0", formDeleted, "1.2.0", "1.0.0"}, false},
		{"another writer's", []string{"1.0.0", formForeign, "1.2.0", "1.0.0"}, false},
		{"not written back yet", []string{"1.0.0", "1.2.0"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHistory(b, func(string) {}, nil)
			for _, obj := range b.all() {
				forms := b.forms(ref(obj))
				if ref(obj) == settings {
					forms = test.forms
				}
				for _, form := range forms {
					h.add(ref(obj), form)
				}
			}
			if err := h.checkWrites(); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}

// A status that another node writes than the one that leads is noticed. A leader that
// resigns writes it in the transaction that deletes its key.
func TestHistory_leaders(t *testing.T) {
	event := func(kind mvccpb.Event_EventType, key, value string, created, revision int64) *clientv3.Event {
		return &clientv3.Event{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte(value), CreateRevision: created, ModRevision: revision}}
	}
	campaigns := func(id string, revision int64) *clientv3.Event {
		return event(mvccpb.PUT, keys.Leaders()+id, id, revision, revision)
	}
	resigned := func(id string, revision int64) *clientv3.Event {
		return event(mvccpb.DELETE, keys.Leaders()+id, "", 0, revision)
	}
	status := func(id string, epoch, revision int64) *clientv3.Event {
		value, err := proto.Marshal(&lockstepv1.ReconcilerStatus{Leader: id, Epoch: epoch})
		if err != nil {
			t.Fatal(err)
		}
		return event(mvccpb.PUT, keys.Status(), string(value), 1, revision)
	}
	tests := []struct {
		name   string
		events []*clientv3.Event
		ok     bool
	}{
		{"the first candidate leads", []*clientv3.Event{campaigns("a", 2), campaigns("b", 3), status("a", 2, 4)}, true},
		{"the second one writes", []*clientv3.Event{campaigns("a", 2), campaigns("b", 3), status("b", 3, 4)}, false},
		{"the second one leads when the first has resigned", []*clientv3.Event{campaigns("a", 2), campaigns("b", 3), resigned("a", 4), status("b", 3, 5)}, true},
		{"one writes that has resigned", []*clientv3.Event{campaigns("a", 2), campaigns("b", 3), resigned("a", 4), status("a", 2, 5)}, false},
		{"it writes and resigns at once", []*clientv3.Event{campaigns("a", 2), resigned("a", 4), status("a", 2, 4), campaigns("b", 5), status("b", 5, 6)}, true},
		{"with the epoch of another term", []*clientv3.Event{campaigns("a", 2), status("a", 1, 4)}, false},
		{"no node leads", []*clientv3.Event{status("a", 1, 4)}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHistory(mustWriteBundles(t), func(string) {}, nil)
			for _, ev := range test.events {
				if err := h.record(t.Context(), ev); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.checkLeaders(); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
}

// A record is reported when its release changes.
func TestHistory_records(t *testing.T) {
	var got []string
	h := newHistory(mustWriteBundles(t), func(string) {}, func(_ context.Context, id, release string) { got = append(got, id+" "+release) })
	for i, minor := range []int64{0, 0, 1} {
		value, err := proto.Marshal(&lockstepv1.Node{
			Id: "a", Status: &lockstepv1.NodeStatus{Version: &lockstepv1.Version{Release: &lockstepv1.Release{Major: 1, Minor: minor}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		kv := &mvccpb.KeyValue{Key: []byte(keys.Node("a")), Value: value, ModRevision: int64(2 + i)}
		if err := h.record(t.Context(), &clientv3.Event{Kv: kv}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a 1.0.0", "a 1.1.0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each release has a kube-apiserver, and its services run that one.
func TestBuilds(t *testing.T) {
	assets := t.TempDir()
	for release, program := range Programs() {
		text := "#!/bin/sh\necho Kubernetes of-" + program + "\n"
		if err := os.WriteFile(filepath.Join(assets, program), []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if mustWriteBundles(t).objects[release] == nil {
			t.Errorf("there is no bundle of %s", release)
		}
	}
	builds, err := newBuilds(Config{Assets: assets, Services: "../../local/services", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for release, program := range Programs() {
		b := builds[release]
		text, err := os.ReadFile(filepath.Join(b.services, serviceFile))
		if err != nil || b.version != "of-"+program || !strings.Contains(string(text), "/"+program+"\" \\\n") {
			t.Errorf("%s: got the version %s, %v, want that of %s, and a service with it:\n%s", release, b.version, err, program, text)
		}
		if all, err := service.Check(b.services); err != nil || len(all) != 1 {
			t.Errorf("%s: got services %v, %v", release, all, err)
		}
	}
}

func TestFormOf(t *testing.T) {
	b := mustWriteBundles(t)
	role := "ClusterRole platform:node-agent"
	live := b.objects["1.1.0"][role].DeepCopy()
	live.SetAnnotations(map[string]string{"added": "by a user"})
	if got := b.formOf(live); got != "1.1.0" {
		t.Errorf("got form %q, want 1.1.0", got)
	}
	live.Object["rules"] = []any{}
	if got := b.formOf(live); got != formForeign {
		t.Errorf("got form %q without its rules, want %q", got, formForeign)
	}
}

func TestCovers(t *testing.T) {
	want := map[string]any{"a": map[string]any{"n": int64(1)}, "l": []any{"x", "y"}}
	tests := []struct {
		name string
		live map[string]any
		want string // in the error; empty: none
	}{
		{"the same", want, ""},
		{"with more", map[string]any{"a": map[string]any{"n": int64(1), "m": true}, "l": []any{"x", "y"}, "z": "z"}, ""},
		{"another value", map[string]any{"a": map[string]any{"n": int64(2)}, "l": []any{"x", "y"}}, "a.n: got 2, want 1"},
		{"a field is missing", map[string]any{"l": []any{"x", "y"}}, "a: got <nil>"},
		{"a longer list", map[string]any{"a": map[string]any{"n": int64(1)}, "l": []any{"x", "y", "z"}}, "l: got [x y z]"},
		{"another order", map[string]any{"a": map[string]any{"n": int64(1)}, "l": []any{"y", "x"}}, "l[0]: got y, want x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := covers(test.live, want, "")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	b := mustWriteBundles(t)
	var statuses []string
	for _, s := range Steps() {
		statuses = append(statuses, s.Want.Status)
		if s.Want.Owed != "" && !b.have(s.Want.Owed) {
			t.Errorf("%s: no bundle has %s", s.Name, s.Want.Owed)
		}
		if b.objects[s.Release] == nil || b.objects[s.Want.Objects] == nil {
			t.Errorf("%s: there is no such bundle", s.Name)
		}
	}
	for _, status := range slices.Compact(statuses) {
		if !slices.Contains(statusHistory(), status) {
			t.Errorf("status %s is not in the history", status)
		}
	}
}

func TestCheck(t *testing.T) {
	calls := 0
	claims := []Claim{
		{Text: "true", check: func(context.Context) error { return nil }},
		{Text: "becomes true", check: func(context.Context) error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		}},
	}
	if errs := Check(t.Context(), claims); errors.Join(errs...) != nil {
		t.Errorf("got %v, want none", errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := Check(ctx, claims); errs[0] == nil {
		t.Errorf("got no error for a claim that was not checked")
	}
}

func TestCheckReady(t *testing.T) {
	ok := cluster.Probe{Result: "success"}
	unready := cluster.Probe{Result: "failure", Output: "HTTP probe failed with statuscode: 503"}
	silent := cluster.Probe{Result: "failure", Output: "Client.Timeout exceeded while awaiting headers"}
	tests := []struct {
		name   string
		probes []cluster.Probe
		ready  bool
		losses int
	}{
		{"not ready before it was", []cluster.Probe{unready, silent, ok}, true, 0},
		{"one refusal is a loss", []cluster.Probe{ok, unready, ok}, true, 1},
		{"two timeouts are none", []cluster.Probe{ok, silent, silent, ok, silent}, true, 0},
		{"three timeouts are one", []cluster.Probe{ok, silent, silent, silent}, false, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, n := &Walk{}, &node{id: "a"}
			ready := false
			for _, probe := range test.probes {
				ready = w.checkReady(n, probe)
			}
			if ready != test.ready || len(w.losses) != test.losses {
				t.Errorf("got ready %t and losses %v, want %t and %d", ready, w.losses, test.ready, test.losses)
			}
		})
	}
}

func TestAdmits(t *testing.T) {
	tests := []struct {
		name, release, version, minimum, needs string
		ok                                     bool
	}{
		{"fits", "1.1.0", "1.0.0", "1.1.0", "1.0.0", true},
		{"the release is too old", "1.1.0", "1.2.0", "1.2.0", "1.0.0", false},
		{"the reconciler is too old", "1.2.0", "1.0.0", "1.0.0", "1.1.0", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s cluster.Status
			s.Node.Release = test.release
			s.Reconciler.State, s.Reconciler.Version, s.Reconciler.MinimumCompatibleRelease = "DONE", test.version, test.minimum
			if err := admits(s, test.needs); (err == nil) != test.ok {
				t.Errorf("got %v, want ok %t", err, test.ok)
			}
		})
	}
	if admits(cluster.Status{}, "0.9.0") == nil {
		t.Errorf("got no error without a status")
	}
}

func mustWriteBundles(t *testing.T) bundles {
	t.Helper()
	b, err := writeBundles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(b.objects)); len(got) != 3 {
		t.Fatalf("got bundles %v, want three", got)
	}
	return b
}

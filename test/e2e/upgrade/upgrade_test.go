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

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func TestBundles(t *testing.T) {
	b := mustWriteBundles(t)
	want := map[string][]string{
		"Namespace platform":              {"1.0.0"},
		"ConfigMap platform/settings":     {"1.0.0", "1.2.0"},
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
		{"as in the bundles", []string{"1.0.0", "1.2.0"}, true},
		{"two writers fight", []string{"1.0.0", "1.2.0", "1.0.0", "1.2.0"}, false},
		{"written for no reason", []string{"1.0.0", "1.0.0", "1.2.0"}, false},
		{"deleted and created again", []string{"1.0.0", formDeleted, "1.2.0"}, false},
		{"another writer's", []string{"1.0.0", formForeign, "1.2.0"}, false},
		{"not written yet", []string{"1.0.0"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHistory(b, func(string) {})
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
		{"true", func(context.Context) error { return nil }},
		{"becomes true", func(context.Context) error {
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

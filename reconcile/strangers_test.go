package reconcile_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/protocol"
)

// forge creates or changes an object as a client that gives it all that Lockstep
// writes on objects, in the name of Lockstep.
func (r *rig) forge(gvr schema.GroupVersionResource, ns, name, more string) {
	r.t.Helper()
	set := r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	patch := fmt.Sprintf(`{"metadata":{"labels":{"applyset.kubernetes.io/part-of":%q},"annotations":{%s"lockstep.dev/content-epoch":"4503599627370496",
		"lockstep.dev/release":"9.0.0","lockstep.dev/min-apiserver-release":"9.0.0","lockstep.dev/form":"x"}}}`, set, more)
	_, err := r.api.Resource(gvr).Namespace(ns).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "lockstep"})
	if err != nil {
		r.t.Fatal(err)
	}
}

// Objects of others, into which a client puts all that Lockstep writes, are left
// alone, whatever kind they are of. No content epoch of ours moves.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.restart()
	priority := "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-p}\nvalue: 5\n"
	definition := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.NS.test"},
			"spec":{"group":"NS.test","names":{"kind":"%[1]s","plural":"%[1]s"},"scope":"Cluster",
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, name)
	}
	namespace := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NS-%s"}}`
	r.use("1.0.0", configMap("a", "x: one"), priority, strings.ReplaceAll(definition("ours"), "\t", " "), fmt.Sprintf(namespace, "ours"))
	r.mustComplete()

	r.create(priorityClasses, "", `{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"NS-theirs"},"value":7}`)
	r.create(crds, "", definition("theirs"))
	r.create(namespaces, "", fmt.Sprintf(namespace, "theirs"))
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"theirs"},"data":{"y":"theirs"}}`)
	r.dropFence()
	const prune = `"lockstep.dev/prune":"enabled",`
	forgeAll := func() {
		r.forge(priorityClasses, "", r.ns+"-theirs", prune)
		r.forge(crds, "", "theirs."+r.ns+".test", prune)
		r.forge(namespaces, "", r.ns+"-theirs", prune)
		r.forge(configMaps, r.ns, "theirs", prune)
	}
	versions := func() string {
		return fmt.Sprint(r.get(priorityClasses, "", r.ns+"-theirs").GetResourceVersion(), r.get(configMaps, r.ns, "theirs").GetResourceVersion(),
			r.get(crds, "", "theirs."+r.ns+".test").GetUID(), r.get(namespaces, "", r.ns+"-theirs").GetResourceVersion())
	}
	forgeAll()
	before := versions()
	for _, x := range []string{"two", "three"} {
		r.use("1.0.0", configMap("a", "x: "+x), priority, strings.ReplaceAll(definition("ours"), "\t", " "), fmt.Sprintf(namespace, "ours"))
		if out := r.mustComplete(); out.HighestEpoch != r.epoch || out.Owed != 0 {
			t.Errorf("got %+v, want the epoch at %d", out, r.epoch)
		}
	}
	if after := versions(); after != before {
		t.Errorf("objects of others were changed: %s, before %s", after, before)
	}
	got := r.report()
	if got.TotalStrangers != 4 || len(got.Strangers) != 4 || got.PruneHeld != "" {
		t.Fatalf("got %+v, want four strangers", got)
	}
	for _, s := range got.Strangers {
		if !strings.Contains(s.Object, "theirs") || s.Manager != "lockstep" || !strings.HasPrefix(s.Command, "kubectl delete ") {
			t.Errorf("got %+v", s)
		}
	}
	if n := strings.Count(log.String(), "carry the label of the set"); n != 1 {
		t.Errorf("got %d lines, want one in\n%s", n, log.String())
	}
}

// Strangers neither pull the brake on removals nor release it, and what controllers
// create with labels of others is none.
func TestStrangers_many(t *testing.T) {
	r := newRig(t)
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: NS}\nspec: {ports: [{port: 80}]}\n"
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"), service)
	r.mustComplete()
	r.dropFence()
	for i := range 30 {
		r.copyAsLockstep("a", fmt.Sprintf("theirs-%02d", i))
	}
	set := r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	owned := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","labels":{"applyset.kubernetes.io/part-of":"` + set + `"},
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]}}`
	r.create(configMaps, r.ns, owned)
	r.create(endpoints, r.ns, `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"copied","labels":{"applyset.kubernetes.io/part-of":"`+set+`"}}}`)

	r.use("1.0.1", configMap("a", "x: one"), service)
	r.mustComplete()
	r.wantGone(configMaps, r.ns, "b")
	got := r.report()
	if got.TotalStrangers != 30 || len(got.Strangers) != 10 || got.PruneHeld != "" || got.Objects.Pruned != 1 {
		t.Errorf("got %d strangers, %d named, %q held, %+v, want 30, 10 and one removal", got.TotalStrangers, len(got.Strangers), got.PruneHeld, got.Objects)
	}
	r.get(configMaps, r.ns, "theirs-29")
}

// The inventory is written before the first object, and has no more than what may
// exist when the pass is done.
func TestInventory(t *testing.T) {
	r := newRig(t)
	size := func() int {
		text, _, _ := nestedString(r.get(configMaps, r.ns, "set"), "data", "inventory")
		return len(text) / 16
	}
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	if got := size(); got != fenceObjects+2 {
		t.Errorf("got %d objects, want the fence and two", got)
	}
	r.use("1.0.1", configMap("a", "x: one"), configMap("c", "x: one"))
	if _, err := r.work(workWithoutRemovals(r)); err != nil {
		t.Fatal(err)
	}
	if got := size(); got != fenceObjects+3 {
		t.Errorf("got %d objects while a removal waits, want three beside the fence", got)
	}
	t.Run("a pass without a change writes nothing", func(t *testing.T) {
		if _, err := r.work(workWithoutRemovals(r)); err != nil || len(r.wire.writes()) > 0 {
			t.Errorf("got %v, %q", err, r.wire.writes())
		}
	})
	t.Run("damaged: it begins with the objects of the bundle", func(t *testing.T) {
		r.patch(configMaps, r.ns, "set", `{"data":{"inventory":"garbage"}}`)
		r.mustComplete()
		if got := size(); got != fenceObjects+2 || r.report().TotalStrangers != 1 {
			t.Errorf("got %d objects and %d strangers", got, r.report().TotalStrangers)
		}
		r.get(configMaps, r.ns, "b")
	})
	t.Run("what was removed is not in it", func(t *testing.T) {
		r.use("1.0.2", configMap("a", "x: one"))
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "c")
		if got := size(); got != fenceObjects+1 {
			t.Errorf("got %d objects", got)
		}
	})
	t.Run("Keep restores it", func(t *testing.T) {
		k := r.keep()
		r.patch(configMaps, r.ns, "set", `{"data":{"inventory":null}}`)
		k.awaitRepairs(1)
		if got := size(); got != fenceObjects+1 {
			t.Errorf("got %d objects", got)
		}
	})
}

func nestedString(obj *unstructured.Unstructured, fields ...string) (string, bool, error) {
	return unstructured.NestedString(obj.Object, fields...)
}

func workWithoutRemovals(r *rig) protocol.Work {
	return protocol.Work{Content: r.content, LeaderEpoch: 7}
}

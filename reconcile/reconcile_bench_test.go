package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// thousand is the mix of objects that docs/benchmarks.md measures with.
func thousand(data string) []string {
	var out []string
	for i := range 400 {
		var rules strings.Builder
		for range 5 {
			fmt.Fprintf(&rules, "\n  - {apiGroups: [apps], resources: [deployments, statefulsets], verbs: [get, list, watch, %s]}", data)
		}
		out = append(out,
			fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS-%d}\nrules:%s\n", i, rules.String()),
			fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: NS-%d}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-%d}\nsubjects: [{kind: ServiceAccount, name: s, namespace: NS}]\n", i, i))
	}
	for i := range 100 {
		out = append(out, fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: NS-%d}\nvalue: %d\n", i, i))
	}
	for i := range 50 {
		out = append(out,
			fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: NS-%d}\nprovisioner: x.test\nparameters: {type: fast}\n", i),
			configMap(fmt.Sprintf("c-%d", i), "a: one", "b: "+data))
	}
	return out
}

// bareApply applies the bundle's objects, under other names, by nothing but
// server-side apply patches, 16 at once: what the apiserver can do.
func (r *rig) bareApply(b *testing.B) time.Duration {
	b.Helper()
	mapped := map[string]string{"ConfigMap": "configmaps", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "PriorityClass": "priorityclasses", "StorageClass": "storageclasses"}
	objects := r.cfg.Bundle.Get().Objects
	var workers errgroup
	begin := time.Now()
	for worker := range 16 {
		workers.run(func() error {
			for i := worker; i < len(objects); i += 16 {
				obj := objects[i].DeepCopy()
				obj.SetName("bare-" + obj.GetName())
				gvr := obj.GroupVersionKind().GroupVersion().WithResource(mapped[obj.GetKind()])
				_, err := r.api.Resource(gvr).Namespace(obj.GetNamespace()).Apply(b.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "bare", Force: true})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// errgroup runs functions side by side and joins their errors.
type errgroup struct {
	running sync.WaitGroup
	mu      sync.Mutex // mu guards errs
	errs    []error
}

func (g *errgroup) run(f func() error) {
	g.running.Go(func() {
		err := f()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs = append(g.errs, err)
	})
}

func (g *errgroup) wait() error {
	g.running.Wait()
	return errors.Join(g.errs...)
}

// BenchmarkReconcile passes over a thousand objects: the first time, without
// change, as another leader, with one object changed, and with 450.
func BenchmarkReconcile(b *testing.B) {
	r := newRig(b)
	pass := func(name string) {
		r.mustComplete()
		took := r.report().DurationSeconds
		b.ReportMetric(took*1000, name+"-ms")
		b.Logf("%-12s %8.1f ms, %4d requests, %4d writes", name, took*1000, len(r.wire.sent()), len(r.wire.writes()))
	}
	r.use("1.0.0", thousand("patch")...)
	applied := r.bareApply(b)
	pass("first")
	first := r.report().DurationSeconds
	b.Logf("bare apply %.1f ms, first pass in %.2f of it", applied.Seconds()*1000, first/applied.Seconds())
	b.ReportMetric(applied.Seconds()*1000, "bare-apply-ms")
	pass("no-change")
	r.restart()
	pass("take-over")
	objects := thousand("patch")
	objects[len(objects)-1] = configMap("c-49", "a: one", "b: other")
	r.use("1.0.1", objects...)
	pass("one-changed")
	pass("no-change")
	r.use("1.0.2", thousand("update")...)
	pass("450-changed")
}

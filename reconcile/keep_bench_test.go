package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// BenchmarkDrift edits and deletes an object in turn, and measures how long it
// takes until it is restored, as the watch of another client sees it: from the answer to
// the edit on. Beside it, alternating, an object for which a bare loop does the
// same by nothing but a watch and one apply.
func BenchmarkDrift(b *testing.B) {
	r := newRig(b)
	r.use("1.0.0", append(thousand("patch"), configMap("a", "x: one"))...)
	r.keep()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	peer := r.peer(ctx, b)
	took := map[string][]time.Duration{}
	// 50 objects, each four times: five would be a fight.
	for i := range 200 {
		name := fmt.Sprintf("c-%d", i%50)
		for _, way := range []string{"edit", "delete"} {
			if (i+i/50)%2 == 0 == (way == "edit") {
				took[way] = append(took[way], r.disturb(b, configMapWatch{name: name, field: "a"}, way))
			}
			took["peer "+way] = append(took["peer "+way], r.disturb(b, configMapWatch{name: "peer", field: "a"}, way))
		}
	}
	cancel()
	if err := <-peer; !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
	for _, what := range []string{"edit", "delete", "peer edit", "peer delete"} {
		d := took[what]
		slices.Sort(d)
		p50, p99 := d[len(d)/2], d[len(d)*99/100]
		b.Logf("%-12s p50 %6.2f ms, p99 %6.2f ms, worst %6.2f ms of %d", what, ms(p50), ms(p99), ms(d[len(d)-1]), len(d))
		b.ReportMetric(ms(p50), strings.ReplaceAll(what, " ", "-")+"-p50-ms")
	}
	if d := r.report().Drift; len(d.Fights) > 0 {
		b.Errorf("got fights %+v, want none: the figures are of something else", d.Fights)
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// configMapWatch is the object that is disturbed, and the field that says so.
type configMapWatch struct{ name, field string }

// disturb edits or deletes a ConfigMap whose field is "one", and returns how
// long after the answer it took to say so again.
func (r *rig) disturb(b *testing.B, c configMapWatch, way string) time.Duration {
	b.Helper()
	api := r.api.Resource(configMaps).Namespace(r.ns)
	w, err := api.Watch(b.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + c.name, ResourceVersion: r.get(configMaps, r.ns, c.name).GetResourceVersion(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	if way == "edit" {
		r.patch(configMaps, r.ns, c.name, fmt.Sprintf(`{"data":{%q:"theirs"}}`, c.field))
	} else {
		r.delete(configMaps, r.ns, c.name)
	}
	began, disturbed := time.Now(), false
	for {
		select {
		case e := <-w.ResultChan():
			obj, _ := e.Object.(*unstructured.Unstructured)
			if obj == nil {
				b.Fatalf("got %+v", e)
			}
			says, _, _ := unstructured.NestedString(obj.Object, "data", c.field)
			if e.Type == watch.Deleted || says == "theirs" {
				disturbed = true
				continue
			}
			if disturbed && says == "one" {
				return max(0, time.Since(began))
			}
		case <-time.After(30 * time.Second):
			b.Fatalf("%s of %s was not repaired: %+v", way, c.name, r.report().Drift)
		}
	}
}

// peer keeps a ConfigMap by a watch and one apply, as little as can be.
func (r *rig) peer(ctx context.Context, b *testing.B) <-chan error {
	b.Helper()
	obj := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"peer","namespace":%q},"data":{"a":"one"}}`, r.ns)
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		b.Fatal(err)
	}
	api := r.api.Resource(configMaps).Namespace(r.ns)
	apply := func() (*unstructured.Unstructured, error) {
		return api.Apply(ctx, "peer", obj, metav1.ApplyOptions{FieldManager: "peer", Force: true})
	}
	made, err := apply()
	if err != nil {
		b.Fatal(err)
	}
	w, err := api.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=peer", ResourceVersion: made.GetResourceVersion()})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for e := range w.ResultChan() {
			live, _ := e.Object.(*unstructured.Unstructured)
			if live == nil {
				break // the end of it
			}
			says, _, _ := unstructured.NestedString(live.Object, "data", "a")
			if e.Type != watch.Deleted && says == "one" {
				continue
			}
			if _, err := apply(); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- context.Cause(ctx)
	}()
	return done
}

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
)

// keeping is a Keep that runs.
type keeping struct {
	*rig
	cancel context.CancelFunc
	done   chan struct{} // closed when what follows is set
	out    protocol.Outcome
	err    error
}

// keep makes a pass, keeps what it left, and returns when all is watched.
func (r *rig) keep() *keeping { return r.keepWithin(longLease) }

func (r *rig) keepWithin(lease func() time.Time) *keeping {
	r.t.Helper()
	r.mustComplete()
	return r.keepAfter(lease)
}

// keepOwing is keep after a pass that removed nothing.
func (r *rig) keepOwing() *keeping {
	r.t.Helper()
	if out, err := r.work(protocol.Work{Content: r.content, LeaderEpoch: 7}); err != nil || !out.Complete {
		r.t.Fatalf("got %+v, %v, want a complete pass", out, err)
	}
	return r.keepAfter(longLease)
}

// keepAfter keeps what the last pass left.
func (r *rig) keepAfter(lease func() time.Time) *keeping {
	r.t.Helper()
	r.wire.reset()
	ctx, cancel := context.WithCancel(r.t.Context())
	k := &keeping{rig: r, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		k.out, k.err = r.reconciler.Keep(ctx, protocol.Work{Content: r.content, LeaderEpoch: 7}, lease)
	}()
	r.t.Cleanup(func() { _, _ = k.stop() })
	await(r.t, "all to be watched", func() error {
		if d := r.report().Drift; !d.Watching {
			return fmt.Errorf("got %+v", d)
		}
		return nil
	})
	return k
}

// stop ends it and returns what it came to.
func (k *keeping) stop() (protocol.Outcome, error) {
	k.cancel()
	<-k.done
	return k.out, k.err
}

// wantDue waits until a full pass is asked for.
func (k *keeping) wantDue() error {
	k.t.Helper()
	select {
	case <-k.done:
	case <-time.After(time.Minute):
		k.t.Fatalf("no full pass is asked for; got %+v", k.report().Drift)
	}
	if _, isDrift := errors.AsType[*reconcile.DriftError](k.err); !isDrift {
		k.t.Fatalf("got %v, want a DriftError", k.err)
	}
	return k.err
}

func (k *keeping) awaitRepairs(n int64) {
	k.t.Helper()
	await(k.t, fmt.Sprintf("repair %d", n), func() error {
		select {
		case <-k.done:
			return fmt.Errorf("ended: %w", k.err)
		default:
		}
		if d := k.report().Drift; d.Repairs < n {
			return fmt.Errorf("got %+v", d)
		}
		return nil
	})
}

// awaitData waits until a ConfigMap says x: want.
func (r *rig) awaitData(name, want string) {
	r.t.Helper()
	await(r.t, name+" to say "+want, func() error {
		obj, err := r.api.Resource(configMaps).Namespace(r.ns).Get(r.t.Context(), name, getOptions)
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(obj.Object, "data", "x"); got != want {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
}

// unwatched are the requests that are no watches.
func (w *wire) unwatched() []string {
	return slices.DeleteFunc(w.sent(), func(r string) bool { return strings.HasPrefix(r, "WATCH ") })
}

func wantRequests(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got requests %q, want %q", got, want)
	}
}

const clusterRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: NS-r}\nrules:\n- {apiGroups: [apps], resources: [deployments], verbs: [get]}\n"

// What another client does to an object is repaired, by few requests.
func TestKeep_putsBack(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"), clusterRole)
	k := r.keep()
	path, n := "/api/v1/namespaces/"+r.ns+"/configmaps", int64(0)
	for _, tt := range []struct {
		name string
		do   func()
		want []string // requests
	}{
		{"what was edited", func() { r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`) }, []string{"PATCH " + path + "/a"}},
		{"what was deleted", func() { r.delete(configMaps, r.ns, "a") }, []string{"POST " + path}},
		{"a field that was removed", func() { r.patch(configMaps, r.ns, "a", `{"data":{"x":null}}`) }, []string{"PATCH " + path + "/a"}},
		{"a stamp that was removed", func() {
			r.patch(configMaps, r.ns, "a", `{"metadata":{"annotations":{"lockstep.dev/content-epoch":null}}}`)
		}, []string{"PATCH " + path + "/a"}},
		{"a stamp that was made garbage", func() {
			r.patch(configMaps, r.ns, "a", `{"metadata":{"annotations":{"lockstep.dev/form":"garbage"}}}`)
		}, []string{"PATCH " + path + "/a"}},
		{"a label that was removed", func() {
			r.patch(configMaps, r.ns, "a", `{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}`)
		}, []string{"POST " + path, "GET " + path + "/a", "PATCH " + path + "/a"}},
		{"an object of another kind", func() {
			r.patch(clusterRoles, "", r.ns+"-r", `{"rules":[]}`)
		}, []string{"PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/" + r.ns + "-r"}},
		{"the parent, deleted", func() { r.delete(configMaps, r.ns, "set") }, []string{"POST " + path, "PUT " + path + "/set"}},
		{"the parent, its mark garbage", func() {
			r.patch(configMaps, r.ns, "set", `{"data":{"mark.json":"garbage"}}`)
		}, []string{"PUT " + path + "/set"}},
		{"the parent, its label removed", func() {
			r.patch(configMaps, r.ns, "set", `{"metadata":{"labels":{"applyset.kubernetes.io/id":null}}}`)
		}, []string{"PUT " + path + "/set"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k.t = t
			r.wire.reset()
			tt.do()
			n++
			k.awaitRepairs(n)
			wantRequests(t, r.wire.unwatched(), tt.want...)
		})
	}
	k.t = t
	if out, err := k.stop(); !errors.Is(err, context.Canceled) || !out.Unsure.IsZero() {
		t.Errorf("got %+v, %v", out, err)
	}
	mark := r.survey()
	if !mark.FirstDone || len(mark.Entries) != 1 || mark.Entries[0] != r.content {
		t.Errorf("got mark %+v, want %v alone", mark, r.content)
	}
	// A pass finds nothing to do, and knows all objects.
	r.mustComplete()
	if got := r.report(); got.Objects.Applied != 0 || len(r.wire.writes()) != 0 {
		t.Errorf("got %+v and writes %q after the repairs, want none", got, r.wire.writes())
	}
}

// What is not ours to repair, or was written by ourselves, costs no request.
func TestKeep_leavesAlone(t *testing.T) {
	r := newRig(t)
	namespace := strings.ReplaceAll("apiVersion: v1\nkind: Namespace\nmetadata: {name: NS-x}\n", "NS", r.ns)
	quota := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: NS}\nspec: {hard: {pods: '3'}}\n"
	r.use("1.0.0", configMap("a", "x: one"), namespace, quota)
	k := r.keep()
	applied := func(name string, force bool, data string) error {
		obj := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{%s}}`, name, r.ns, data)
		if err := obj.UnmarshalJSON([]byte(text)); err != nil {
			return err
		}
		_, err := r.api.Resource(configMaps).Namespace(r.ns).Apply(t.Context(), name, obj, metav1.ApplyOptions{FieldManager: "other", Force: force})
		return err
	}
	id := r.get(configMaps, r.ns, "a").GetLabels()["applyset.kubernetes.io/part-of"]
	r.patch(configMaps, r.ns, "a", `{"data":{"y":"theirs"},"metadata":{"annotations":{"their":"s"}}}`)
	if err := errors.Join(applied("a", false, `"z":"theirs"`), applied("a", false, `"x":"one","z":"theirs"`)); err != nil {
		t.Fatal(err)
	}
	r.create(configMaps, r.ns, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"labelled","namespace":"NS","labels":{"applyset.kubernetes.io/part-of":%q}}}`, id))
	r.create(configMaps, r.ns, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"elsewhere","namespace":"NS"}}`)
	r.delete(configMaps, r.ns, "elsewhere")
	r.patch(configMaps, r.ns, "set", `{"metadata":{"annotations":{"their":"s"}}}`)
	quotas := schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	for i := range 3 {
		_, err := r.api.Resource(quotas).Namespace(r.ns).Patch(t.Context(), "q", "application/merge-patch+json",
			fmt.Appendf(nil, `{"status":{"used":{"pods":"%d"}}}`, i), metav1.PatchOptions{FieldManager: "somebody"}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	// What comes last shows that all before was received, kind by kind.
	r.wire.reset()
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
	r.patch(quotas, r.ns, "q", `{"spec":{"hard":{"pods":"4"}}}`)
	r.delete(configMaps, r.ns, "set")
	k.awaitRepairs(3)
	paths := r.wire.unwatched()
	slices.Sort(paths)
	base := "/api/v1/namespaces/" + r.ns
	wantRequests(t, paths, "PATCH "+base+"/configmaps/a", "PATCH "+base+"/resourcequotas/q", "POST "+base+"/configmaps",
		"PUT "+base+"/configmaps/set")
	if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any); got["y"] != "theirs" || got["z"] != "theirs" {
		t.Errorf("got %v, want what others own left alone", got)
	}
}

// cutter breaks watches.
type cutter struct {
	mu     sync.Mutex // mu guards bodies
	bodies []io.Closer
}

func (c *cutter) transport(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err == nil && isWatch(req) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies = append(c.bodies, resp.Body)
	}
	return resp, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		_ = b.Close()
	}
	c.bodies = nil
}

func isWatch(req *http.Request) bool { return req.URL.Query().Get("watch") != "" }

// A watch that breaks goes on where it was, and where that is too long ago a list
// takes its place: nothing is missed.
func TestKeep_survivesBrokenWatches(t *testing.T) {
	tests := []struct {
		name string
		// refuse answers the watches that are opened again.
		refuse func(*http.Request) *http.Response
		lists  bool
	}{
		{"cut", nil, false},
		{"and was compacted", func(req *http.Request) *http.Response {
			return answerWith(req, http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}`)
		}, true},
		{"and says so in the stream", func(req *http.Request) *http.Response {
			return answerWith(req, http.StatusOK, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`)
		}, true},
		{"and the server sheds load", func(req *http.Request) *http.Response {
			return answerWith(req, http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"), configMap("c", "x: one"))
			c := &cutter{}
			r.wire.setFault(c.transport)
			k := r.keep()
			refused, away := map[string]bool{}, make(chan struct{})
			r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
				if !isWatch(req) {
					return next.RoundTrip(req)
				}
				<-away
				r.wire.mu.Lock()
				first := !refused[req.URL.Path]
				refused[req.URL.Path] = true
				r.wire.mu.Unlock()
				if first && tt.refuse != nil {
					return tt.refuse(req), nil
				}
				return c.transport(req, next)
			})
			c.cut()
			r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
			r.delete(configMaps, r.ns, "b")
			r.delete(configMaps, r.ns, "set")
			r.wire.reset()
			close(away)
			k.awaitRepairs(3)
			r.awaitData("a", "one")
			r.awaitData("b", "one")
			if lists := len(r.wire.sent("GET")); lists > 0 != tt.lists {
				t.Errorf("got %q, want lists: %t", r.wire.sent("GET"), tt.lists)
			}
			if writes := r.wire.writes(); len(writes) != 4 {
				t.Errorf("got %q, want one write for each object, and two for the parent", writes)
			}
		})
	}
}

func answerWith(req *http.Request, code int, text string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(text)),
	}
}

// A refused watch is reported, and the other kinds are watched.
func TestKeep_watchRefused(t *testing.T) {
	const group = "/apis/rbac.authorization.k8s.io/v1"
	for _, tt := range []struct {
		name  string
		fault func(*http.Request, http.RoundTripper) (*http.Response, error)
		want  string
	}{
		{"to this user", func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if !isWatch(req) || req.URL.Path != group+"/clusterroles" {
				return next.RoundTrip(req)
			}
			return answerWith(req, http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"cannot watch","reason":"Forbidden","code":403}`), nil
		}, "cannot watch"},
		{"to all users", func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if req.URL.Path != group {
				return next.RoundTrip(req)
			}
			return answerWith(req, http.StatusOK, `{"kind":"APIResourceList","resources":[{"name":"clusterroles","kind":"ClusterRole","verbs":["get","list","create","patch"]}]}`), nil
		}, "ClusterRole"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.use("1.0.0", configMap("a", "x: one"), clusterRole)
			r.wire.setFault(tt.fault)
			r.mustComplete()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := r.reconciler.Keep(ctx, protocol.Work{Content: r.content}, longLease)
				done <- err
			}()
			await(t, "the problem", func() error {
				if d := r.report().Drift; d.Watching || !strings.Contains(d.Problem, tt.want) {
					return fmt.Errorf("got %+v", d)
				}
				return nil
			})
			r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
			r.awaitData("a", "one")
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if d := r.report().Drift; d.Problem != "" {
				t.Errorf("got %+v after the end", d)
			}
		})
	}
}

// Where one apply is not enough, a full pass is asked for.
func TestKeep_asksForAFullPass(t *testing.T) {
	t.Run("a definition was deleted", func(t *testing.T) {
		r := newRig(t)
		definition := strings.ReplaceAll(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.NS.test},
  spec: {group: NS.test, names: {kind: Thing, plural: things}, scope: Cluster,
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, "NS", r.ns)
		r.use("1.0.0", definition)
		k := r.keep()
		r.delete(crds, "", "things."+r.ns+".test")
		await(t, "the kube-apiserver to have deleted the definition", func() error {
			_, err := r.api.Resource(crds).Get(t.Context(), "things."+r.ns+".test", getOptions)
			return wantNotFound(err)
		})
		_ = k.wantDue()
		r.mustComplete()
		r.get(crds, "", "things."+r.ns+".test")
	})
	t.Run("a newer leader wrote", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
		k := r.keep()
		next := r.successor()
		next.epoch = r.epoch
		next.use("1.0.2", configMap("a", "x: newest"), configMap("b", "x: newest"))
		next.mustComplete()
		_ = k.wantDue()
		for _, name := range []string{"a", "b"} {
			if got := r.get(configMaps, r.ns, name).Object["data"].(map[string]any)["x"]; got != "newest" {
				t.Errorf("got %s: x = %v, want what the new leader wrote", name, got)
			}
		}
		if mark := next.survey(); len(mark.Entries) != 1 || mark.Entries[0] != next.content {
			t.Errorf("got %+v, want the new leader's mark", mark)
		}
	})
	t.Run("the mark names other content", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		k := r.keep()
		mark, _, _ := unstructured.NestedString(r.get(configMaps, r.ns, "set").Object, "data", "mark.json")
		other := strings.ReplaceAll(mark, `"release":"1.0.0"`, `"release":"1.0.9"`)
		r.patch(configMaps, r.ns, "set", fmt.Sprintf(`{"data":{"mark.json":%q}}`, other))
		_ = k.wantDue()
		if writes := r.wire.writes(); len(writes) != 0 {
			t.Errorf("got %q, want it left to the leader", writes)
		}
	})
	t.Run("a creation of what the bundle dropped, before it was removed", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
		r.mustComplete()
		r.use("1.0.1", configMap("a", "x: one"))
		k := r.keepOwing()
		r.copyAsLockstep("b", "b")
		_ = k.wantDue()
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "b")
	})
	t.Run("an object cannot be repaired", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		k := r.keep()
		r.wire.setFault(func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
			if isVerb("PATCH", "/configmaps/a")(req) {
				return answerWith(req, http.StatusUnprocessableEntity, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":422}`), nil
			}
			return next.RoundTrip(req)
		})
		r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
		if err := k.wantDue(); !strings.Contains(err.Error(), `ConfigMap "`+r.ns+`/a"`) {
			t.Errorf("got %v, want the object named", err)
		}
	})
	t.Run("the watch cannot be kept", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		c := &cutter{}
		r.wire.setFault(c.transport)
		k := r.keep()
		r.wire.setFault(func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return nil, errors.New("connection refused")
		})
		c.cut()
		_ = k.wantDue()
	})
	t.Run("nothing was left by a pass", func(t *testing.T) {
		r := newRig(t)
		r.use("1.0.0", configMap("a", "x: one"))
		r.mustComplete()
		r.use("1.0.1", configMap("a", "x: two"))
		_, err := r.reconciler.Keep(t.Context(), protocol.Work{Content: r.content}, longLease)
		if _, isDrift := errors.AsType[*reconcile.DriftError](err); !isDrift {
			t.Errorf("got %v, want a DriftError", err)
		}
	})
}

// Nothing is written when the lease is over.
func TestKeep_leaseOver(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	k := r.keepWithin(func() time.Time { return time.Now().Add(-time.Second) })
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
	if err := k.wantDue(); !errors.Is(err, reconcile.ErrLeaseOver) {
		t.Errorf("got %v, want %v", err, reconcile.ErrLeaseOver)
	}
	if writes := r.wire.writes(); len(writes) != 0 {
		t.Errorf("got %q after the lease", writes)
	}
}

// A repair whose answer is lost is reported, so that a successor waits for it.
func TestKeep_unsure(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	k := r.keep()
	r.wire.once(isVerb("PATCH", "/configmaps/a"), loseAnswer)
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
	k.awaitRepairs(1)
	r.awaitData("a", "one")
	if out, _ := k.stop(); out.Unsure.IsZero() {
		t.Errorf("got %+v, want it unsure", out)
	}
}

// Keep goes on where it was stopped, without a pass in between.
func TestKeep_again(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	k := r.keep()
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"two"}}`)
	k.awaitRepairs(1)
	_, _ = k.stop()
	if d := r.report().Drift; d.Watching {
		t.Errorf("got %+v after the end", d)
	}
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"three"}}`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.reconciler.Keep(ctx, protocol.Work{Content: r.content}, longLease)
		done <- err
	}()
	r.awaitData("a", "one")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Once a full pass is due, nothing else will do: the leader may have been busy
// with something else when Keep said so.
func TestKeep_staysDue(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	r.use("1.0.1", configMap("a", "x: one"))
	k := r.keepOwing()
	r.copyAsLockstep("b", "b")
	_ = k.wantDue()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := r.reconciler.Keep(ctx, protocol.Work{Content: r.content, LeaderEpoch: 7}, longLease)
	if _, isDrift := errors.AsType[*reconcile.DriftError](err); !isDrift {
		t.Errorf("got %v, want a DriftError", err)
	}
	r.mustComplete()
	r.wantGone(configMaps, r.ns, "b")
}

// The parent does not count as repaired where another client changed it again
// meanwhile: a valid mark does not mean that its kinds are.
func TestKeep_parentChangedTwice(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"))
	k := r.keep()
	r.wire.once(isVerb(http.MethodPut, "/configmaps/set"), r.before(func(client *rig) {
		client.patch(configMaps, client.ns, "set", `{"metadata":{"annotations":{"applyset.kubernetes.io/contains-group-kinds":"Secret"}}}`)
	}))
	r.patch(configMaps, r.ns, "set", `{"metadata":{"labels":{"applyset.kubernetes.io/id":null}}}`)
	_ = k.wantDue()
	r.mustComplete()
	set := r.get(configMaps, r.ns, "set")
	if kinds := set.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]; !strings.HasPrefix(kinds, "ConfigMap,") {
		t.Errorf("got kinds %q", kinds)
	}
	if set.GetLabels()["applyset.kubernetes.io/id"] == "" {
		t.Error("the label is missing")
	}
}

// A fight is noticed, named and slowed down, and goes on.
func TestKeep_fight(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one", "y: one"), configMap("b", "x: one"))
	k := r.keep()
	for i := range int64(5) {
		r.patch(configMaps, r.ns, "a", fmt.Sprintf(`{"data":{"x":"theirs-%d"}}`, i))
		k.awaitRepairs(i + 1)
	}
	fights := r.report().Drift.Fights
	if len(fights) != 1 {
		t.Fatalf("got %+v, want one fight", r.report().Drift)
	}
	f := fights[0]
	if f.Object != `ConfigMap "`+r.ns+`/a"` || f.Manager != "somebody" || !slices.Equal(f.Fields, []string{".data.x"}) || f.Repairs != 5 || f.Since.IsZero() {
		t.Errorf("got %+v", f)
	}
	before := r.report().Drift.LastRepair
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"theirs-6"}}`)
	r.patch(configMaps, r.ns, "b", `{"data":{"x":"theirs"}}`)
	k.awaitRepairs(6)
	r.awaitData("b", "one") // others do not wait
	k.awaitRepairs(7)
	r.awaitData("a", "one")
	if took := r.report().Drift.LastRepair.Sub(before.Time); took < 500*time.Millisecond {
		t.Errorf("the fight was not slowed down: repaired after %s", took)
	}
	if _, err := k.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(r.report().Drift.Fights) != 1 {
		t.Error("the fight was forgotten with the end")
	}
	r.mustComplete()
	if len(r.report().Drift.Fights) != 1 {
		t.Error("the fight was forgotten with a pass")
	}

	// The other writer is faster than a list: a pass does not join the fight, nor
	// is it held up by it.
	r.patch(configMaps, r.ns, "a", `{"data":{"x":"theirs"}}`)
	r.mustComplete()
	if writes := r.wire.writes(); len(writes) != 0 {
		t.Errorf("a pass wrote %q in a fight", writes)
	}
	if got := r.report(); got.Objects.Desired != got.Objects.Applied+got.Objects.Unchanged+got.Objects.Failed {
		t.Errorf("got %d objects, of which %d applied, %d unchanged, %d failed", got.Objects.Desired, got.Objects.Applied, got.Objects.Unchanged, got.Objects.Failed)
	}
	k = r.keep()
	r.awaitData("a", "one") // and Keep goes on with it
	if _, err := k.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var shared cluster.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Close()
	os.Exit(code)
}

// Where the kinds of the tests are.
var (
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	clusterRoles    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	priorityClasses = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
)

// fenceObjects is how many objects a set has beside those of its bundle.
const fenceObjects = 2

// rigs counts the rigs: also the same test has a namespace of its own each time.
var rigs atomic.Int64

// rig is a set of its own on the shared apiserver.
type rig struct {
	t          testing.TB
	api        *dynamic.DynamicClient // as another client uses it
	cfg        reconcile.Config
	ns         string // a namespace of its own
	parentNS   string // the namespace of the set's parent
	wire       *wire
	reconciler *reconcile.Reconciler
	epoch      int64 // the content epoch of the last content
	content    protocol.Content
}

func newRig(t testing.TB) *rig {
	t.Helper()
	server := shared.Get(t)
	r := &rig{t: t, ns: fmt.Sprintf("t-%d", rigs.Add(1)), wire: &wire{}}
	var err error
	if r.api, err = dynamic.NewForConfig(server.Config()); err != nil {
		t.Fatal(err)
	}
	r.create(namespaces, "", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, r.ns))
	restConfig := server.Config()
	restConfig.Wrap(r.wire.wrap)
	r.cfg = reconcile.Config{
		RESTConfig: restConfig, Bundle: event.New[*bundle.Bundle](nil),
	}
	r.parentNS = r.ns
	r.restart()
	return r
}

// fixedIP is an address for a Service that names its own. The API server is shared: it
// gives Services that name none an address at random, but only above the first 16 of
// its range as long as one is free there.
func fixedIP(n int) string { return fmt.Sprintf("10.0.0.%d", 10+n) }

// restart makes a Reconciler that remembers nothing, as another leader has it.
func (r *rig) restart() {
	r.t.Helper()
	var err error
	if r.reconciler, err = reconcile.NewForSet(r.cfg, "set", r.parentNS); err != nil {
		r.t.Fatal(err)
	}
}

// use makes manifests the newest bundle, of the given release, and gives them a
// content epoch of their own if they are new. NS in them is the rig's namespace.
func (r *rig) use(release string, manifests ...string) {
	r.t.Helper()
	r.useHeader("release: "+release, manifests...)
}

func (r *rig) useHeader(header string, manifests ...string) {
	r.t.Helper()
	dir := r.t.TempDir()
	r.writeFile(dir, "bundle.yaml", "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\n"+header+"\n")
	r.writeFile(dir, "objects.yaml", strings.ReplaceAll(strings.Join(manifests, "\n---\n"), "NS", r.ns))
	b, err := bundle.Load(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cfg.Bundle.Set(b)
	next := protocol.Content{Release: b.Version.Release, Constraints: b.Constraints, Digest: b.Digest, Epoch: r.epoch}
	if next != r.content {
		r.epoch++
		next.Epoch = r.epoch
	}
	r.content = next
}

func (r *rig) writeFile(dir, name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// pass makes one pass with removals allowed.
func (r *rig) pass() (protocol.Outcome, error) {
	return r.work(protocol.Work{Content: r.content, Removals: true, LeaderEpoch: 7})
}

func (r *rig) work(w protocol.Work) (protocol.Outcome, error) {
	r.wire.reset()
	return r.reconciler.Reconcile(r.t.Context(), w, longLease, time.Time{})
}

func longLease() time.Time { return time.Now().Add(time.Hour) }

// mustComplete makes one pass that has to be complete.
func (r *rig) mustComplete() protocol.Outcome {
	r.t.Helper()
	out, err := r.pass()
	if err != nil {
		r.t.Fatal(err)
	}
	if !out.Complete {
		r.t.Fatalf("got an incomplete pass: %+v", r.report())
	}
	return out
}

func (r *rig) report() report.Reconcile { return r.reconciler.Report().Get() }

// parse reads a manifest. NS in it is the rig's namespace.
func (r *rig) parse(manifest string) *unstructured.Unstructured {
	r.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON([]byte(strings.ReplaceAll(manifest, "NS", r.ns))); err != nil {
		r.t.Fatal(err)
	}
	return obj
}

func (r *rig) create(gvr schema.GroupVersionResource, ns, manifest string) *unstructured.Unstructured {
	r.t.Helper()
	obj := r.parse(manifest)
	out, err := r.api.Resource(gvr).Namespace(ns).Create(r.t.Context(), obj, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// copyAsLockstep creates a copy of a ConfigMap in the name of Lockstep, with all
// that Lockstep writes on objects. A copy of its own name replaces it.
func (r *rig) copyAsLockstep(name, as string) {
	r.t.Helper()
	obj := r.get(configMaps, r.ns, name)
	if as == name {
		r.delete(configMaps, r.ns, name)
	}
	obj.SetName(as)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	_, err := r.api.Resource(configMaps).Namespace(r.ns).Create(r.t.Context(), obj, metav1.CreateOptions{FieldManager: "lockstep"})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(gvr schema.GroupVersionResource, ns, name string) *unstructured.Unstructured {
	r.t.Helper()
	obj, err := r.api.Resource(gvr).Namespace(ns).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return obj
}

func (r *rig) wantGone(gvr schema.GroupVersionResource, ns, name string) {
	r.t.Helper()
	_, err := r.api.Resource(gvr).Namespace(ns).Get(r.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		r.t.Errorf("got %v for %s %s, want it gone", err, gvr.Resource, name)
	}
}

// patch changes an object as another client.
func (r *rig) patch(gvr schema.GroupVersionResource, ns, name, patch string) {
	r.t.Helper()
	_, err := r.api.Resource(gvr).Namespace(ns).Patch(r.t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) delete(gvr schema.GroupVersionResource, ns, name string) {
	r.t.Helper()
	if err := r.api.Resource(gvr).Namespace(ns).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

var getOptions = metav1.GetOptions{}

// wantNotFound is nil where err says that there is no such object.
func wantNotFound(err error) error {
	switch {
	case err == nil:
		return errors.New("is still there")
	case apierrors.IsNotFound(err):
		return nil
	}
	return fmt.Errorf("want not found: %w", err)
}

func await(t testing.TB, what string, cond func() error) {
	t.Helper()
	cluster.Await(t, what, func(context.Context) error { return cond() })
}

// configMap is a manifest of one in the rig's namespace.
func configMap(name string, data ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: NS}\ndata: {%s}\n", name, strings.Join(data, ", "))
}

// wire counts the requests of the Reconciler, and can break them.
type wire struct {
	mu       sync.Mutex // mu guards what follows
	requests []string   // "VERB path"; WATCH is one
	fault    func(req *http.Request, next http.RoundTripper) (*http.Response, error)
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		w.mu.Lock()
		verb := req.Method
		if req.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		w.requests = append(w.requests, verb+" "+req.URL.Path)
		fault := w.fault
		w.mu.Unlock()
		if fault != nil {
			return fault(req, next)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// sent returns the requests with one of the verbs, all without.
func (w *wire) sent(verbs ...string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.requests), func(r string) bool {
		verb, _, _ := strings.Cut(r, " ")
		return len(verbs) > 0 && !slices.Contains(verbs, verb)
	})
}

func (w *wire) writes() []string { return w.sent("POST", "PUT", "PATCH", "DELETE") }

// break makes fault answer each request from now on; nil ends it.
func (w *wire) setFault(fault func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// once breaks the first request that matches. Those that follow wait until fault has
// returned: they may be the same request again, after its time limit.
func (w *wire) once(match func(*http.Request) bool, fault func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	var first sync.Once
	w.setFault(func(req *http.Request, next http.RoundTripper) (resp *http.Response, err error) {
		broken := false
		if match(req) {
			first.Do(func() {
				broken = true
				resp, err = fault(req, next)
			})
		}
		if broken {
			return resp, err
		}
		return next.RoundTrip(req)
	})
}

// offTest is a test for goroutines that are not its own. They must not end it.
type offTest struct{ testing.TB }

// Fatal marks the test as failed and ends the goroutine.
func (t offTest) Fatal(args ...any) {
	t.Helper()
	t.Error(args...)
	runtime.Goexit()
}

// Fatalf is Fatal with a format.
func (t offTest) Fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	runtime.Goexit()
}

// meanwhile does what another client does while a request is under way, where no
// goroutine is the test's. A failure fails the test, and is the error that the request gets.
func (r *rig) meanwhile(do func(client *rig)) error {
	client, completed, ended := *r, false, make(chan struct{})
	client.t = offTest{r.t}
	go func() {
		defer close(ended)
		do(&client)
		completed = true
	}()
	<-ended
	if !completed {
		return errors.New("the other client failed")
	}
	return nil
}

// before lets another client do something before a request is sent on.
func (r *rig) before(do func(client *rig)) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(req *http.Request, next http.RoundTripper) (*http.Response, error) {
		if err := r.meanwhile(do); err != nil {
			return nil, err
		}
		return next.RoundTrip(req)
	}
}

// loseAnswer lets a request take effect and loses its answer.
func loseAnswer(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return nil, errors.Join(errors.New("connection reset"), err)
}

func isVerb(verb, part string) func(*http.Request) bool {
	return func(req *http.Request) bool { return req.Method == verb && strings.Contains(req.URL.Path, part) }
}

// fits says that a Reconciler is what package election asks for.
var _ interface {
	Survey(ctx context.Context, work protocol.Work, quiet time.Time) (protocol.Mark, error)
	Reconcile(ctx context.Context, work protocol.Work, lease func() time.Time, quiet time.Time) (protocol.Outcome, error)
	Keep(ctx context.Context, work protocol.Work, lease func() time.Time) (protocol.Outcome, error)
} = (*reconcile.Reconciler)(nil)

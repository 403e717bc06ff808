package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/protocol"
)

// staleWrites is how many objects of a kind TestStaleLeadersExactly has for each verb.
var staleWrites = flag.Int("reconcile.stale", sentAtOnce, "how many writes of each kind and verb TestStaleLeadersExactly holds; `make soak` holds 66, more than 1,000 in all")

// sentAtOnce is how many requests that were held are sent at once.
const sentAtOnce = 16

// holder is a proxy between a leader and the API server. It keeps requests, after
// the leader has ended too, until the test releases them.
type holder struct {
	*httptest.Server
	client  *http.Client // of the API server
	backend string
	proxy   *httputil.ReverseProxy

	mu   sync.Mutex // mu guards what follows
	keep func(*http.Request) bool
	kept []request
}

// request is one that was kept.
type request struct {
	method, uri string
	contentType string
	body        []byte
}

func newHolder(t *testing.T) *holder {
	t.Helper()
	server := shared.Get(t)
	client, err := rest.HTTPClientFor(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	l := &holder{client: client, backend: server.URL()}
	l.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: client.Transport}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// ServeHTTP keeps a request, and its connection until the leader hangs up.
func (l *holder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	l.mu.Lock()
	keep := l.keep
	l.mu.Unlock()
	if !keep(req) {
		l.proxy.ServeHTTP(w, req)
		return
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return // the leader has hung up already
	}
	l.mu.Lock()
	l.kept = append(l.kept, request{req.Method, req.URL.RequestURI(), req.Header.Get("Content-Type"), data})
	l.mu.Unlock()
	<-req.Context().Done()
}

func (l *holder) requests() []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.kept)
}

// answers counts the answers to requests by method and status, like "PATCH 409".
func (l *holder) answers(t *testing.T, requests []request) map[string]int {
	t.Helper()
	var workers errgroup
	var mu sync.Mutex // mu guards counts
	counts := map[string]int{}
	for worker := range sentAtOnce {
		workers.run(func() error {
			for i := worker; i < len(requests); i += sentAtOnce {
				code, err := l.send(t.Context(), requests[i])
				if err != nil {
					return err
				}
				mu.Lock()
				counts[fmt.Sprintf("%s %d", requests[i].method, code)]++
				mu.Unlock()
			}
			return nil
		})
	}
	if err := workers.wait(); err != nil {
		t.Fatal(err)
	}
	return counts
}

func (l *holder) send(ctx context.Context, r request) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, r.method, l.backend+r.uri, bytes.NewReader(r.body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", r.contentType)
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// without returns the requests with a method and for one of the kinds, without
// their preconditions: as a client would send them that knows of none.
func without(t *testing.T, requests []request, method string, of []specimen) []request {
	t.Helper()
	var out []request
	for _, r := range requests {
		if r.method == method && slices.ContainsFunc(of, func(s specimen) bool { return strings.Contains(r.uri, "/"+s.gvr.Resource+"/") }) {
			out = append(out, r.unguarded(t))
		}
	}
	return out
}

// wantLimited checks that each request gives the server a time limit of at most
// five seconds.
func wantLimited(t *testing.T, requests []request) {
	t.Helper()
	for _, r := range requests {
		u, err := url.Parse(r.uri)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := time.ParseDuration(u.Query().Get("timeout")); err != nil || d <= 0 || d > 5*time.Second {
			t.Errorf("%s %s: got timeout %s, %v, want at most 5 s", r.method, r.uri, d, err)
		}
	}
}

// unguarded returns the request without the preconditions in it.
func (r request) unguarded(t *testing.T) request {
	t.Helper()
	var content map[string]any
	if err := json.Unmarshal(r.body, &content); err != nil {
		t.Fatal(err)
	}
	delete(content, "preconditions")
	unstructured.RemoveNestedField(content, "metadata", "uid")
	unstructured.RemoveNestedField(content, "metadata", "resourceVersion")
	var err error
	if r.body, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	return r
}

// stale makes a leader with a bundle of its own, lets it go on until count of
// its requests that match are kept, and stops it. It never got an answer.
func (r *rig) stale(l *holder, count int, match func(*http.Request) bool, release string, manifests []string) {
	r.t.Helper()
	leader := *r
	leader.cfg.RESTConfig = &rest.Config{Host: l.URL}
	leader.cfg.Concurrency = count
	leader.restart()
	leader.use(release, manifests...)
	r.epoch, r.content = leader.epoch, leader.content

	l.mu.Lock()
	before := len(l.kept)
	l.keep = match
	l.mu.Unlock()
	ctx, stop := context.WithCancel(r.t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := leader.reconciler.Reconcile(ctx, protocol.Work{Content: leader.content, Removals: true, LeaderEpoch: leader.epoch}, longLease, time.Time{})
		ended <- err
	}()
	await(r.t, "the leader to be in the middle of its writes", func() error {
		select {
		case err := <-ended:
			ended <- err
			r.t.Fatalf("the pass ended: %v, %+v", err, leader.report())
		default:
		}
		if got := len(l.requests()) - before; got != count {
			return fmt.Errorf("%d of %d requests are kept", got, count)
		}
		return nil
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		r.t.Fatalf("got %v, want the leader stopped", err)
	}
}

// specimen is a kind that stale leaders write.
type specimen struct {
	gvr      schema.GroupVersionResource
	count    int    // of objects for each verb
	manifest string // with the name and a note
}

// specimens are kinds of the apiserver's own, one of a CRD, and one that no
// policy governs.
func (r *rig) specimens() []specimen {
	storage := schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	widgets := schema.GroupVersionResource{Group: r.ns + ".test", Version: "v1", Resource: "widgets"}
	n := *staleWrites
	const cluster, local = "metadata: {name: NS-%s, annotations: {note: %s}}\n", "metadata: {name: %s, namespace: NS, annotations: {note: %s}}\n"
	return []specimen{
		{clusterRoles, n, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n" + cluster + "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"},
		{configMaps, n, "apiVersion: v1\nkind: ConfigMap\n" + local},
		{priorityClasses, n, "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n" + cluster + "value: 5\n"},
		{storage, n, "apiVersion: storage.k8s.io/v1\nkind: StorageClass\n" + cluster + "provisioner: x.test\n"},
		{widgets, n, "apiVersion: NS.test/v1\nkind: Widget\n" + local + "spec: {size: 1}\n"},
		{policies, 6, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n" + cluster +
			"spec: {matchConstraints: {resourceRules: [{apiGroups: [NS.test], apiVersions: [v1], operations: [CREATE], resources: [widgets]}]}, validations: [{expression: 'true'}]}\n"},
	}
}

// crowd makes manifests of the specimens: those to be updated, created and
// deleted, each with its note, or not at all where that is empty.
func crowd(specimens []specimen, updated, created, deleted string) []string {
	var out []string
	for _, s := range specimens {
		for i := range s.count {
			for name, note := range map[string]string{"u": updated, "c": created, "d": deleted} {
				if note != "" {
					out = append(out, fmt.Sprintf(s.manifest, fmt.Sprintf("%s-%d", name, i), note))
				}
			}
		}
	}
	return out
}

// versions returns what every object of the set is: any write changes it.
func (r *rig) versions(specimens []specimen) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	selector := "applyset.kubernetes.io/part-of=" + r.get(configMaps, r.ns, "set").GetLabels()["applyset.kubernetes.io/id"]
	for _, s := range specimens {
		list, err := r.api.Resource(s.gvr).List(r.t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, obj := range list.Items {
			out[s.gvr.Resource+"/"+obj.GetName()] = string(obj.GetUID()) + " " + obj.GetResourceVersion()
		}
	}
	return out
}

// landed counts the objects that are not what they were.
func landed(before, after map[string]string) int {
	n := max(0, len(after)-len(before))
	for name, version := range before {
		if after[name] != version {
			n++
		}
	}
	return n
}

// isWrite matches requests with one of the methods, except those of the parent.
func isWrite(methods ...string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		return slices.Contains(methods, req.Method) && !strings.HasSuffix(req.URL.Path, "/configmaps/set")
	}
}

// TestStaleLeadersExactly stops leaders in the middle of their writes, lets the
// next leader finish, and only then lets go of what they had sent.
func TestStaleLeadersExactly(t *testing.T) {
	r := newRig(t)
	r.epoch = 2
	r.cfg.AllowMassPrune = true
	r.restart()
	l := newHolder(t)
	all := r.specimens()
	governed, exempt := all[:len(all)-1], all[len(all)-1:]
	n, m := len(crowd(governed, "one", "", "")), len(crowd(exempt, "one", "", ""))
	with := func(sets ...[]string) []string {
		return append(slices.Concat(sets...), crd, configMap("a", "x: one"))
	}
	for i, note := range []string{"zero", "one"} { // applied, not only created: from then on an update is one request
		r.use(fmt.Sprintf("1.0.%d", i), with(crowd(all, note, "", note))...)
		r.mustComplete()
	}
	r.awaitFence()

	// One leader for each kind and half: what it sends has to be kept within the
	// five seconds that a request lives, also on a machine that is busy.
	for i, one := range all {
		others := crowd(slices.Concat(all[:i], all[i+1:]), "one", "", "one")
		of := []specimen{one}
		r.stale(l, 2*one.count, isWrite("PATCH", "POST"), fmt.Sprintf("1.1.%d", 2*i), with(crowd(of, "two", "two", "one"), others))
		r.stale(l, one.count, isWrite("DELETE"), fmt.Sprintf("1.1.%d", 2*i+1), with(crowd(of, "one", "", ""), others))
	}
	r.use("1.2.0", with(crowd(all, "new", "new", "new"))...)
	r.mustComplete()

	stale := l.requests()
	if len(stale) != 3*(n+m) {
		t.Fatalf("got %d requests, want %d: one for each object", len(stale), 3*(n+m))
	}
	t.Logf("%d requests of %d leaders were held until the next one had finished", len(stale), 2*len(all))
	wantLimited(t, stale)
	updates := without(t, stale, "PATCH", governed)
	send := func(t *testing.T, requests []request, wantAnswers map[string]int, wantLanded int) {
		t.Helper()
		before := r.versions(all)
		if len(before) < 3*(n+m) {
			t.Fatalf("got %d objects, want all %d", len(before), 3*(n+m))
		}
		if diff := cmp.Diff(wantAnswers, l.answers(t, requests)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if got := landed(before, r.versions(all)); got != wantLanded {
			t.Errorf("got %d objects changed, want %d", got, wantLanded)
		}
	}
	nothing := map[string]int{"PATCH 409": n + m, "POST 409": n + m, "DELETE 409": n + m}
	t.Run("as they were sent", func(t *testing.T) { send(t, stale, nothing, 0) })
	t.Run("the fence alone: updates come without preconditions", func(t *testing.T) {
		send(t, updates, map[string]int{"PATCH 403": n}, 0)
	})
	r.dropFence()
	t.Run("the preconditions alone: the fence is missing", func(t *testing.T) { send(t, stale, nothing, 0) })
	t.Run("neither: all lands, so what held it is what is tested", func(t *testing.T) {
		send(t, updates, map[string]int{"PATCH 200": n}, n)
		send(t, without(t, stale, "PATCH", exempt), map[string]int{"PATCH 200": m}, m)
		deletions := without(t, stale, "DELETE", all)
		send(t, deletions, map[string]int{"DELETE 200": n + m}, n+m)
	})
}

// What neither the preconditions nor the fence can hold lands. It is for the
// wait before the last list to have it over, and for that list to find it
// (docs/protocol-objects.md#stale-writes): here it comes after DONE, and the pass after it
// repairs it. What the new content does not have is a stranger by then.
func TestStaleWritesThatLand(t *testing.T) {
	two, one := configMap("a", "x: two"), configMap("a", "x: one")
	other := configMap("b", "x: one")
	tests := []struct {
		name, verb string
		stale      []string // what the stale leader wants; the next one has what was there before
	}{
		{"a creation of what does not exist", "POST", []string{one, other, configMap("c", "x: one")}},
		{"an update of what the next content has as it was before", "PATCH", []string{two, other}},
		{"a removal of what the next content has as it was before", "DELETE", []string{one}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			l := newHolder(t)
			for _, first := range []string{"zero", "one"} {
				r.use("1.0.0", configMap("a", "x: "+first), configMap("b", "x: "+first))
				r.mustComplete()
			}
			r.stale(l, 1, isWrite(tt.verb), "1.1.0", tt.stale)
			r.use("1.2.0", one, other)
			r.mustComplete()
			all := []specimen{{gvr: configMaps}}
			before := r.versions(all)
			l.answers(t, l.requests())
			if got := landed(before, r.versions(all)); got != 1 {
				t.Fatalf("got %d objects changed, want 1", got)
			}
			if out := r.mustComplete(); out.HighestEpoch > r.epoch {
				t.Errorf("got %+v", out)
			}
			if got := r.get(configMaps, r.ns, "a").Object["data"].(map[string]any)["x"]; got != "one" {
				t.Errorf("got x = %v, want one", got)
			}
			r.get(configMaps, r.ns, "b")
			if created := tt.verb == "POST"; created != (len(r.report().Strangers) == 1) {
				t.Errorf("got strangers %+v", r.report().Strangers)
			}
		})
	}
}

package kubeaccess

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/selfsigned"
)

// kubeconfigFor returns a kubeconfig for a server. user is a part of its user in YAML.
func kubeconfigFor(t *testing.T, server, user string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"clusters: [{name: c, cluster: {server: " + server + "}}]\n" +
		"users: [{name: u, user: {" + user + "}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// reviews answers who may do what, and remembers each question.
type reviews struct {
	denied func(kube.Right) bool
	mu     sync.Mutex // mu guards asked
	asked  []kube.Right
}

func (r *reviews) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var review struct {
		Spec struct {
			ResourceAttributes kube.Right `json:"resourceAttributes"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil || req.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
		http.Error(w, "unexpected", http.StatusBadRequest)
		return
	}
	right := review.Spec.ResourceAttributes
	r.mu.Lock()
	r.asked = append(r.asked, right)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !r.denied(right)}})
}

func missing(t *testing.T, needs Needs, denied func(kube.Right) bool) ([]string, []kube.Right, error) {
	t.Helper()
	r := &reviews{denied: denied}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	access, err := New(kubeconfigFor(t, server.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	out, err := access.Missing(t.Context(), needs)
	return out, r.asked, err
}

func TestAccess_Missing(t *testing.T) {
	t.Run("nothing is missing", func(t *testing.T) {
		out, asked, err := missing(t, Needs{}, func(kube.Right) bool { return false })
		if err != nil || len(out) != 0 {
			t.Errorf("got %v, %v", out, err)
		}
		for _, r := range asked {
			if r.Group == "discovery.k8s.io" || r.Resource == "endpoints" {
				t.Errorf("%s is not needed without the endpoints", r)
			}
		}
	})
	t.Run("verbs and names of the same objects are joined", func(t *testing.T) {
		out, _, err := missing(t, Needs{Endpoints: true}, func(r kube.Right) bool {
			return r.Resource == "configmaps" && r.Verb != "create" || r.Group == "discovery.k8s.io" || r.Resource == "validatingadmissionpolicies" && r.Verb == "delete"
		})
		want := []string{
			"get, list, watch, update configmaps " + reconcile.ParentName + " in " + reconcile.ParentNamespace,
			"delete validatingadmissionpolicies.admissionregistration.k8s.io " + reconcile.FenceName,
			"list, watch, create endpointslices.discovery.k8s.io in default",
			"get, patch, delete endpointslices.discovery.k8s.io kubernetes in default",
		}
		if diff := cmp.Diff(want, out); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
	t.Run("the objects of every bundle count", func(t *testing.T) {
		b, err := bundle.Open(bundle.BuiltinName)
		if err != nil {
			t.Fatal(err)
		}
		want := "patch storageclasses.storage.k8s.io local, local-retain"
		out, _, err := missing(t, Needs{Bundles: []*bundle.Bundle{b}}, func(r kube.Right) bool { return r.Verb == "patch" })
		if err != nil || !slices.Contains(out, want) {
			t.Errorf("got %q, %v, want %s", out, err, want)
		}
	})
}

// An answer that was not given is no answer.
func TestAccess_Missing_noAnswer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	access, err := New(kubeconfigFor(t, server.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := access.Missing(t.Context(), Needs{}); err == nil || !strings.Contains(err.Error(), "ask for the right to") || out != nil {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestAccess_User(t *testing.T) {
	cert, key := selfsigned.PEM(t, x509.Certificate{
		Subject: pkix.Name{CommonName: "lockstep", Organization: []string{"system:masters"}}, NotAfter: time.Now().Add(time.Hour),
	})
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	access, err := New(kubeconfigFor(t, "https://127.0.0.1:6443", "client-certificate-data: "+encode(cert)+", client-key-data: "+encode(key)))
	if err != nil {
		t.Fatal(err)
	}
	if name, groups := access.User(); name != "lockstep" || len(groups) != 1 || groups[0] != "system:masters" {
		t.Errorf("got %s, %v", name, groups)
	}
	if got, err := access.Addresses(t.Context()); err != nil || len(got) != 1 || got[0] != "127.0.0.1" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "no PEM", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"} {
		if name, groups := (&Access{ClientCert: []byte(text)}).User(); name != "" || groups != nil {
			t.Errorf("%q: got %s, %v", text, name, groups)
		}
	}
}

func TestStoreOfObjects(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	for name, tc := range map[string]struct {
		code     int
		body     string
		want     string
		contains string // of the error
	}{
		"the parent carries it":    {200, `{"metadata": {"annotations": {"` + bundle.AnnotationStore + `": "` + id + `"}}}`, id, ""},
		"a parent without it":      {200, `{"metadata": {}}`, "", ""},
		"no parent":                {404, `{}`, "", ""},
		"not allowed":              {403, `{"kind": "Status", "message": "no right"}`, "", "no right"},
		"an answer that is cut":    {200, `{"metadata": {"annot`, "", "unexpected end of JSON input"},
		"an endless answer is cut": {200, `{"x": "` + strings.Repeat("x", kube.MaxAnswer) + `"}`, "", "the answer has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if want := "/api/v1/namespaces/" + reconcile.ParentNamespace + "/configmaps/" + reconcile.ParentName; r.URL.Path != want {
					t.Errorf("got %s, want %s", r.URL.Path, want)
				}
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			t.Cleanup(server.Close)
			got, err := StoreOfObjects(t.Context(), kubeconfigFor(t, server.URL, ""))
			if got != tc.want || (err != nil) != (tc.contains != "") || err != nil && !strings.Contains(err.Error(), tc.contains) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("a server that hangs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
		t.Cleanup(server.Close)
		if _, err := StoreOfObjects(ctx, kubeconfigFor(t, server.URL, "")); err == nil {
			t.Error("got no error")
		}
	})
}

// TestPatiently: a question whose answer does not come in time is asked again while there is time, no other.
func TestPatiently(t *testing.T) {
	for _, test := range []struct {
		late    int // answers that do not come in time
		then    error
		asked   int
		want    error
		limited time.Duration
	}{
		{late: 0, then: nil, asked: 1, limited: time.Minute},
		{late: 2, then: nil, asked: 3, limited: time.Minute},
		{late: 1, then: kube.ErrMayNotAsk, asked: 2, want: kube.ErrMayNotAsk, limited: time.Minute},
		{late: 9, asked: 3, want: context.DeadlineExceeded, limited: 2500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.limited)
			defer cancel()
			asked := 0
			err := patiently(ctx, func() error {
				one, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if asked++; asked > test.late {
					return test.then
				}
				<-one.Done()
				return &kube.TransportError{Err: one.Err()}
			})
			if !errors.Is(err, test.want) || asked != test.asked {
				t.Errorf("%+v: asked %d times, %v", test, asked, err)
			}
		})
	}
}

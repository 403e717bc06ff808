package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// bounded is how many reviews strangers may cause (docs/adr/0025-what-the-http-api-asks.md).
type bounded struct{ atOnce, inSecond int }

var ofAll, ofAddress = bounded{40, 10}, bounded{10, 2}

// reviewer is a kube-apiserver that reviews the clients of a sidecar.
type reviewer struct {
	kubeconfig, token string

	cluster *cluster.Cluster
	started chan error
	api     *cluster.APIServer // once it has started
	client  *http.Client
	scraper *http.Client // of the sidecar, which keeps its connection
}

// startReviewer begins to start one. Its scraper is at an address.
func startReviewer(t *testing.T, scraper net.IP) *reviewer {
	t.Helper()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	address, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	r := &reviewer{cluster: c, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), started: make(chan error, 1), scraper: newClient(scraper)}
	r.scraper.Transport.(*http.Transport).DisableKeepAlives = false
	t.Cleanup(r.scraper.CloseIdleConnections)
	if err := c.WriteKubeconfig(r.kubeconfig, "https://"+address); err != nil {
		t.Fatal(err)
	}
	if r.client, err = rest.HTTPClientFor(c.APIConfig("https://" + address)); err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		r.api, err = c.StartAPIServer(cluster.APIServerConfig{Name: "reviewer", Addr: address})
		r.started <- err
	}()
	return r
}

// await waits until it has started, and v's metrics are read once; a nil one need not.
func (r *reviewer) await(t *testing.T, v *victim) {
	t.Helper()
	if r == nil {
		return
	}
	if err := <-r.started; err != nil {
		t.Fatal(err)
	}
	r.send(t, "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"scraper"}}`)
	r.send(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"scraper"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
		"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"scraper"}]}`)
	const review = `{"spec":{"user":"system:serviceaccount:default:scraper","nonResourceAttributes":{"path":"/metrics","verb":"get"}}}`
	cluster.Await(t, "the kube-apiserver to know the binding", func(context.Context) error {
		if text := r.send(t, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review); !bytes.Contains(text, []byte(`"allowed":true`)) {
			return fmt.Errorf("got %s", text)
		}
		return nil
	})
	r.token = r.newToken(t)
	r.read(t, v, r.token)
}

// newToken returns a token of a client that may read everything.
func (r *reviewer) newToken(t *testing.T) string {
	t.Helper()
	var out struct{ Status struct{ Token string } }
	if err := json.Unmarshal(r.send(t, "/api/v1/namespaces/default/serviceaccounts/scraper/token", `{}`), &out); err != nil {
		t.Fatal(err)
	}
	return out.Status.Token
}

// send creates an object; an empty body: it reads.
func (r *reviewer) send(t *testing.T, path, body string) []byte {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(t.Context(), method, r.api.URL()+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s: %s, %v\n%.300s", path, answer.Status, err, text)
	}
	return text
}

var ofReviews = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="(?:tokenreviews|subjectaccessreviews)".*\} (\d+)$`)

// reviews returns how many reviews were asked for since the start.
func (r *reviewer) reviews(t *testing.T) (sum int) {
	t.Helper()
	for _, line := range ofReviews.FindAllSubmatch(r.send(t, "/metrics", ""), -1) {
		n, err := strconv.Atoi(string(line[1]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// during runs f, which attacks, and returns how often. It may cause few reviews, if r is not nil.
func (r *reviewer) during(t *testing.T, most bounded, f func() int) {
	t.Helper()
	if r == nil {
		f()
		return
	}
	pid := strconv.Itoa(r.api.PID())
	before, errBefore := processorTime(pid)
	reviewed, began := r.reviews(t), time.Now()
	times := f()
	lasted := time.Since(began).Seconds()
	after, errAfter := processorTime(pid)
	if err := errors.Join(errBefore, errAfter); err != nil {
		t.Fatal(err)
	}
	got, cpu := r.reviews(t)-reviewed, (after-before).Seconds()/lasted
	t.Logf("%d times (%.0f/s): %d reviews (%.1f/s), and the kube-apiserver used %.1f %% of a processor in all",
		times, float64(times)/lasted, got, float64(got)/lasted, 100*cpu)
	// A known token, and the right of its owner, are reviewed again every ten seconds. On a busy machine, as many reviews
	// as may be under way began in an attack before.
	const known, life, underWay = 2, 10, 16
	if n := underWay + most.atOnce + int(lasted*float64(most.inSecond)) + known*int(1+lasted/life); got > n {
		t.Errorf("%d reviews in %.1f s, want at most %d", got, lasted, n)
	}
}

// attacked lets a client of this machine invent tokens, for which only reviews are bounded. A client that could
// read before goes on elsewhere, with its token and with a new one.
func (r *reviewer) attacked(t *testing.T, v *victim) {
	t.Helper()
	host, _, err := net.SplitHostPort(v.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	here := v.Target
	here.From = slices.Repeat([]net.IP{net.ParseIP(host)}, few)
	r.during(t, ofAddress, func() (times int) {
		ctx, cancel := context.WithTimeout(t.Context(), *duration)
		defer cancel()
		var attacking sync.WaitGroup
		attacking.Go(func() { times = Attack{step: inventedTokens, workers: 16}.Run(ctx, here) })
		for ctx.Err() == nil {
			r.read(t, v, r.token)
		}
		attacking.Wait()
		return times
	})
	r.read(t, v, r.newToken(t))
}

// read reads the metrics with a token.
func (r *reviewer) read(t *testing.T, v *victim, token string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+v.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := r.scraper.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("a client that may read gets %s, %v\n%.300s", answer.Status, err, text)
	}
}

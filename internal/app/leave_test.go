package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A sidecar that stops deletes its ephemeral record only after its kube-apiserver
// stopped, and closes its gate long before.
func TestRun_deletesItsRecord(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg := configure(t, server.Endpoints()[0], api)
	cfg.ExpireDeadNodes, cfg.Ephemeral = time.Minute, true
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	s.awaitReason(protocol.ShuttingDown)
	awaitRequests(t, api, api.requests.Load()+2*int64(protocol.StoppedAfter/leavePause))
	if code, _ := s.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz while the kube-apiserver runs: %d", code)
	}
	wantKeys(t, raw, 1, 1)
	api.stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	wantKeys(t, raw, 0, 0)
}

// awaitRequests returns when the API received so many requests.
func awaitRequests(t *testing.T, api *countingAPI, want int64) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for api.requests.Load() < want {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the API got %d requests, want %d", api.requests.Load(), want)
		}
	}
}

// wantKeys checks the numbers of records and presences of node "me".
func wantKeys(t *testing.T, raw *clientv3.Client, records, presences int64) {
	t.Helper()
	resp, err := raw.Txn(t.Context()).Then(clientv3.OpGet(keys.Node("me")), clientv3.OpGet(keys.Presence("me"))).Commit()
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Responses[0].GetResponseRange().Count; got != records {
		t.Errorf("%d records, want %d", got, records)
	}
	if got := resp.Responses[1].GetResponseRange().Count; got != presences {
		t.Errorf("%d presences, want %d", got, presences)
	}
}

func TestRefuses(t *testing.T) {
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "shutting down", http.StatusInternalServerError)
	}))
	t.Cleanup(answering.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its backlog accepts, as with a paused process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	proxy, err := url.Parse(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		client http.Client
		url    string
		want   bool
	}{
		"nothing listens":    {http.Client{}, gone.URL, true},
		"it answers 500":     {http.Client{}, answering.URL, false},
		"it does not answer": {http.Client{Timeout: 100 * time.Millisecond}, "http://" + silent.Addr().String(), false},
		"no such host":       {http.Client{}, "http://no-such-host.invalid", false},
		"a proxy is missing": {http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}, "http://10.0.0.1", false},
		"not a URL":          {http.Client{}, "://", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refuses(t.Context(), &tc.client, tc.url); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
			tc.client.CloseIdleConnections()
		})
	}
}

// The count is from when the first refusal arrived to when the newest was asked for.
func TestRefusals(t *testing.T) {
	began := time.Now()
	r := refusals{first: began, last: began.Add(3 * time.Second)}
	if got := r.lasted(); got != 3*time.Second {
		t.Errorf("got %s", got)
	}
	r = refusals{first: began, last: began.Add(-time.Millisecond)} // the first one
	if got := r.lasted(); got != 0 {
		t.Errorf("after one refusal: got %s", got)
	}
}

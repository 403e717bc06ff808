package app

import (
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
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
	awaitRequests(t, api, api.requests.Load()+2*int64(noderecord.StoppedAfter/(200*time.Millisecond)))
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
	deadline := time.After(time.Minute)
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

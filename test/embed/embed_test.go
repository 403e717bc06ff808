package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestEmbed runs the program on a real etcd and a real kube-apiserver.
func TestEmbed(t *testing.T) {
	api := cluster.NewAPIServer(t)
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "127.0.0.1:0", lockstep.Options{
			NodeID: "a", Etcd: lockstep.External{Servers: api.Cluster.Endpoints()}, Kubeconfig: api.Kubeconfig(), Bundle: lockstep.BuiltinBundle,
		}, in)
		in.CloseWithError(err)
		ended <- err
	}()

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("ended before its gate opened: %v", err)
	}
	addr, _, _ := strings.Cut(line, ": ")
	if body := get(t, "http://"+addr+"/lockstep/readyz"); body != "ok" {
		t.Errorf("/readyz: %s", body)
	}
	var report struct {
		Election  struct{ State string }
		Reconcile struct{ LastSuccess string }
	}
	if err := json.Unmarshal([]byte(get(t, "http://"+addr+"/lockstep/status")), &report); err != nil {
		t.Fatal(err)
	}
	if report.Election.State != "leading" || report.Reconcile.LastSuccess == "" {
		t.Errorf("got %+v, want a leader that has reconciled", report)
	}

	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

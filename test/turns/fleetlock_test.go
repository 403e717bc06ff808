package turns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// agent sends one request as the reboot agent of a node, in a group of its own: all groups of nodes wait for each other.
func (w *world) agent(ctx context.Context, n *node, path, id string) (code int, body string, err error) {
	text := fmt.Sprintf(`{"client_params": {"id": %q, "group": %q}}`, id, "group-"+id)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.cfg.Listen+path, strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("fleet-lock-protocol", "true")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), errors.Join(err, resp.Body.Close())
}

func (w *world) wantAgent(n *node, path, id string, code int, part string) {
	w.Helper()
	got, body, err := w.agent(w.Context(), n, path, id)
	if err != nil || got != code || !strings.Contains(body, part) {
		w.Errorf("%s of %s: got %d %s, %v, want %d with %q", path, n.id, got, body, err, code, part)
	}
}

// The agents of all nodes want to reboot at the same time: one machine after another, while all others
// serve.
func TestFleetLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.nodes[0], w.nodes[1]
	w.wantAgent(first, "/v1/steady-state", "a", 200, "") // at its first start: it holds nothing
	w.wantAgent(first, "/v1/pre-reboot", "a", 200, "")
	w.wantAgent(first, "/v1/pre-reboot", "a", 200, "") // again
	w.wantAgent(first, "/v1/pre-reboot", "b", 409, `"kind":"failed_lock"`)
	w.wantAgent(first, "/v1/steady-state", "b", 200, "") // it holds nothing, and ends nothing
	w.wantAgent(second, "/v1/pre-reboot", "c", 409, "has the turn")
	w.wantAgent(first, "/v1/steady-state", "a", 200, "")
	cluster.Await(t, "cp-1 to serve", first.sidecar.Readyz)

	stop := w.followServing()
	var agents sync.WaitGroup
	for _, n := range w.nodes {
		agents.Go(func() {
			// It asks again, as agents do: they cannot see the change for which they wait.
			cluster.Await(t, "the agent of "+n.id+" to get the turn", func(ctx context.Context) error {
				code, body, err := w.agent(ctx, n, "/v1/pre-reboot", n.id)
				if err == nil && code != http.StatusOK {
					err = errors.New(body)
				}
				return err
			})
			if err := n.sidecar.Readyz(t.Context()); err == nil {
				t.Errorf("%s serves when its machine is about to stop", n.id)
			}
			if err := n.sidecar.Stop(); err != nil {
				t.Error(err)
			}
			w.start(n)
			cluster.Await(t, n.id+" to answer its agent", func(ctx context.Context) error {
				code, body, err := w.agent(ctx, n, "/v1/steady-state", n.id)
				if err == nil && code != http.StatusOK {
					err = errors.New(body)
				}
				return err
			})
		})
	}
	agents.Wait()
	for _, n := range w.nodes {
		cluster.Await(t, n.id+" to serve", n.sidecar.Readyz)
	}
	stop()
	if code, out := w.sidecar("turn", "status").end(); code != 0 || !strings.Contains(out, "no node has a turn") {
		t.Errorf("got %d, %s", code, out)
	}
}

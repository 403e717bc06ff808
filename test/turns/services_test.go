package turns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// serviceWord is the first argument of the service of a node.
const serviceWord = "service"

// startsFor is how long a service takes to listen.
const startsFor = 300 * time.Millisecond

// serveAs answers with a word at an address, until it is killed. With the word broken it ends.
func serveAs(address, word string) error {
	<-time.After(startsFor)
	if word == "broken" {
		return errors.New("it is broken")
	}
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // only the test asks
		fmt.Fprint(w, word)
	}))
}

// serving is a world whose nodes run a service, and clients of it.
type serving struct {
	*world
	addresses map[string]string // of the services, by node
	answered  atomic.Int64
	failed    atomic.Int64
}

func newServing(t *testing.T) *serving {
	t.Helper()
	s := &serving{addresses: map[string]string{}}
	dir := t.TempDir()
	s.world = newWorld(t, func(n *node) {
		address, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		s.addresses[n.id] = address
		if err := os.MkdirAll(filepath.Join(dir, n.id, "services"), 0o700); err != nil {
			t.Fatal(err)
		}
		n.services = filepath.Join(dir, n.id, "services")
		n.cfg.Args = append(n.cfg.Args, "--services="+n.services, "--data-dir="+filepath.Join(dir, n.id, "data"), "--node-address=127.0.0.1")
		s.change(t, n, "one", "")
	})
	return s
}

// change writes the file of a node's service.
func (s *serving) change(t *testing.T, n *node, word, more string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: api}\nrole: kubernetes_controller\n"+
		"process: {command: [%q, %s, %q, %s]}\nreadiness: {httpGet: {url: %q}, periodSeconds: 1}\nstopTimeout: 5s\n%s",
		self, serviceWord, s.addresses[n.id], word, "http://"+s.addresses[n.id], more)
	if err := os.WriteFile(filepath.Join(n.services, "api.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// word returns the answer of a node's service.
func (s *serving) word(ctx context.Context, n *node) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addresses[n.id], nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), errors.Join(err, resp.Body.Close())
}

func (s *serving) awaitWord(n *node, want string) {
	s.Helper()
	cluster.Await(s, n.id+" to serve "+want, func(ctx context.Context) error {
		got, err := s.word(ctx, n)
		if err == nil && got != want {
			err = fmt.Errorf("got %q", got)
		}
		return err
	})
}

// clients use the services as through a load balancer: it asks /readyz of each node ten times in a
// second, and sends requests to those that answered last. stop ends that.
func (s *serving) clients() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	for _, n := range s.nodes {
		var open atomic.Bool
		sidecar := n.sidecar // the next one of the node has the same URL
		running.Go(func() {
			for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				open.Store(sidecar.Readyz(ctx) == nil)
			}
		})
		running.Go(func() {
			for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				if !open.Load() {
					continue
				}
				if _, err := s.word(ctx, n); err == nil {
					s.answered.Add(1)
				} else if ctx.Err() == nil {
					s.failed.Add(1)
					s.Errorf("a request to %s: %v", n.id, err)
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
		s.Logf("%d requests answered, %d failed", s.answered.Load(), s.failed.Load())
	}
}

func (s *serving) awaitStatus(parts ...string) {
	s.Helper()
	s.awaitPrinted([]string{"turn", "status"}, parts...)
}

// The file of the service changes on all nodes at the same time, under clients: one after another, and
// no request fails. restart: immediately starts it at once.
func TestServices(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	unwatch, stop := s.followServing(), s.clients()
	for _, n := range s.nodes {
		s.change(t, n, "two", "")
	}
	for _, n := range s.nodes {
		s.awaitWord(n, "two")
	}
	s.awaitStatus("no node has a turn")
	stop()
	unwatch()
	if s.answered.Load() == 0 {
		t.Error("the clients got no answer")
	}
	for _, n := range s.nodes {
		s.change(t, n, "three", "restart: immediately\n")
	}
	for _, n := range s.nodes {
		s.awaitWord(n, "three")
	}
	s.awaitStatus("no node has a turn")
}

// With a node that is dead, none gets a turn, and each says why. A change that never becomes ready
// stops the line at the first node, also if its sidecar is killed, until people repair it, or take
// the controller role from the node.
func TestServices_faults(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	first, second, third := s.nodes[0], s.nodes[1], s.nodes[2]
	if err := third.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "cp-3 to be dead", func(ctx context.Context) error {
		resp, err := s.raw.Get(ctx, keys.Presence("cp-3"))
		if err == nil && resp.Count > 0 {
			err = errors.New("its presence is alive")
		}
		return err
	})
	s.change(t, first, "broken", "")
	s.change(t, second, "broken", "")
	s.awaitStatus(`cp-1 waits for a turn`, `cp-2 waits for a turn`, `node "cp-3" is dead`)
	s.start(third)
	s.awaitStatus("has the turn", "waits for a turn")
	holder, waits := first, second
	if _, out := s.sidecar("turn", "status").end(); strings.Contains(out, "cp-2 has the turn") {
		holder, waits = second, first
	}
	s.awaitWordGone(holder)
	if err := holder.sidecar.Kill(); err != nil {
		t.Fatal(err)
	}
	stop := s.clients()
	s.start(holder)
	s.awaitStatus(holder.id+" has the turn", `ITS WORK HAS FAILED: its service "api" ended (exit status 1)`, waits.id+" waits for a turn")
	for _, n := range []*node{waits, third} {
		s.awaitWord(n, "one")
	}
	// Repaired, it goes on. The next one breaks.
	s.change(t, holder, "two", "")
	s.awaitWord(holder, "two")
	s.change(t, third, "two", "")
	s.awaitStatus(waits.id+" has the turn", "ITS WORK HAS FAILED", "cp-3 waits for a turn")
	// Without the role it never serves again. Its turn ends all the same, and the last one goes on.
	s.want(s.sidecar("node", "set-roles", waits.id, "--remove=kubernetes_controller"), 0, "")
	s.awaitWord(third, "two")
	s.awaitStatus("no node has a turn")
	stop()
}

// awaitWordGone waits until the service of a node does not answer.
func (s *serving) awaitWordGone(n *node) {
	s.Helper()
	cluster.Await(s, n.id+" not to serve", func(ctx context.Context) error {
		if _, err := s.word(ctx, n); err == nil {
			return errors.New("it answers")
		}
		return nil
	})
}

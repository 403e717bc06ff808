package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/test/balancers"
)

// The sleep of people who restart one node after another and do not look, and the shorter one of a run of all cases.
const (
	restartSleep = 15 * time.Second
	shortSleep   = 5 * time.Second
)

// restartName begins the names of all restarts.
const restartName = "restart of three kube-apiservers, "

func isRestart(f clientFault) bool { return strings.HasPrefix(f.name, restartName) }

// benchRestarts restarts the kube-apiservers of three nodes with clients: in turns, and as it is
// done without Lockstep.
func benchRestarts(ctx context.Context, b *bench) error {
	var rigs [2]*clientRig
	for i, without := range []bool{false, true} {
		rigs[i] = &clientRig{b: b, without: without, only: onlyRestarts, addresses: networkAddresses(1+4*i, 4)}
		if err := rigs[i].run(ctx); err != nil {
			return err
		}
	}
	b.reportRestarts(rigs[0], rigs[1])
	b.prints = append(b.prints, func(w io.Writer) { printClients(w, rigs[0], rigs[1]) })
	return nil
}

func (b *bench) reportRestarts(with, without *clientRig) {
	for way, name := range balancers.Ways {
		got, other := with.sum(way, isRestart), without.sum(way, isRestart)
		b.report.fact("failed requests through "+name+", while three kube-apiservers are restarted",
			compared(got.Failed, got, other.Failed, other), "0", got.Failed == 0)
	}
}

func (r *clientRig) restarts(sleep time.Duration) []clientFault {
	if !r.without {
		return []clientFault{{name: restartName + "sidecar turn typed at once", upgrade: true, run: r.restartInTurns}}
	}
	oneByOne := func(ctx context.Context) error { return r.restartWithSleeps(ctx, sleep) }
	return []clientFault{
		{name: restartName + "all at once", run: r.restartAtOnce},
		{name: restartName + "one by one, sleep " + sleep.String(), run: oneByOne},
	}
}

// restartInTurns types sidecar turn on all nodes at the same time. The command of the turn asks
// this process to restart the kube-apiserver, whose parent it is.
func (r *clientRig) restartInTurns(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, n := range r.fleet.Nodes {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := restartAPI(n); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
		defer server.Close()
		group.Go(func() error {
			return r.b.turn(groupCtx, n.Sidecar, r.prefix(), "--", self, "peer", "restart", server.URL)
		})
	}
	return group.Wait()
}

func restartAPI(n *balancers.Node) error { return errors.Join(n.API.Stop(), n.StartAPI("1.0.0")) }

// runRestart is the command of a turn.
func runRestart(ctx context.Context, args []string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, args[0], http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	return err
}

func (r *clientRig) restartAtOnce(context.Context) error {
	var group errgroup.Group
	for _, n := range r.fleet.Nodes {
		group.Go(func() error { return restartAPI(n) })
	}
	return group.Wait()
}

func (r *clientRig) restartWithSleeps(ctx context.Context, sleep time.Duration) error {
	for _, n := range r.fleet.Nodes {
		if err := restartAPI(n); err != nil {
			return err
		}
		if !backoff.Sleep(ctx, sleep) {
			return ctx.Err()
		}
	}
	return nil
}

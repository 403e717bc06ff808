// Command demo shows two rolling upgrades of a control plane with three nodes. Each
// node is a real kube-apiserver and a sidecar; all share one etcd on this machine. With
// -cluster=embedded the sidecars run an etcd of their own besides: it shows how they
// form it, and each step restarts one of its members.
// It prints which node leads, which nodes are ready, which node blocks, the status,
// and the objects that change. After every step it checks its claims. It exits with
// 1 if a claim is false. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

var errClaims = errors.New("not all claims are true")

func main() {
	assets := flag.String("assets", "bin", "directory of the binaries")
	kind := flag.String("cluster", "", "embedded: the sidecars run etcd themselves")
	flag.Parse()
	var addresses []string
	var err error
	switch *kind {
	case "embedded":
		addresses, err = cluster.NodeAddresses(upgrade.NodeCount)
	case "":
	default:
		err = fmt.Errorf("CLUSTER=%s: must be embedded, or empty", *kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	ctx, stop := terminal.Interruptible()
	defer stop()
	if err := run(ctx, *assets, addresses, newPrinter(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run keeps the logs if the demo fails. addresses are those of the nodes; none: they share
// one etcd.
func run(ctx context.Context, assets string, addresses []string, p *printer) (err error) {
	dir, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return err
	}
	logs := filepath.Join(dir, "logs")
	defer func() {
		if err == nil || ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		err = fmt.Errorf("%w\nlogs are in %s", err, logs)
	}()

	p.intro(addresses)
	c, err := cluster.New(cluster.Config{Assets: assets, Dir: dir, LogDir: logs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := upgrade.New(upgrade.Config{Cluster: c, Dir: dir, OnEvent: p.event, Addresses: addresses})
	if err != nil {
		return err
	}
	return walk(ctx, w, p)
}

// walk takes all steps and shows each change meanwhile.
func walk(ctx context.Context, w *upgrade.Walk, p *printer) error {
	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan error, 1) // has room for the only error
	go func() { watched <- w.Run(watchCtx) }()
	begin := time.Now()
	err := takeSteps(ctx, w, p)
	stopWatch()
	err = errors.Join(err, <-watched)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err == nil:
		p.summary(time.Since(begin), w.Writes())
	}
	return err
}

// takeSteps continues after a false claim, so that it shows all of them.
func takeSteps(ctx context.Context, w *upgrade.Walk, p *printer) error {
	var verdict error
	for _, step := range upgrade.Steps() {
		p.step(step)
		if err := w.Do(ctx, step); err != nil {
			return err
		}
		verdict = errors.Join(verdict, check(ctx, w.Claims(step), p))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	p.heading("during all steps")
	if check(ctx, w.FinalClaims(), p) != nil || verdict != nil {
		return errClaims
	}
	return nil
}

func check(ctx context.Context, claims []upgrade.Claim, p *printer) error {
	errs := upgrade.Check(ctx, claims)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.claimed(claims, errs)
	if errors.Join(errs...) != nil {
		return errClaims
	}
	return nil
}

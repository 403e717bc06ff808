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

// addresses are those of the nodes with -cluster=embedded, so that the ports and the
// commands are the usual ones.
var addresses = []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}

var errClaims = errors.New("not all claims are true")

func main() {
	assets := flag.String("assets", "bin", "directory of the binaries")
	kind := flag.String("cluster", "", "embedded: the sidecars run etcd themselves")
	flag.Parse()
	if *kind != "" && *kind != "embedded" {
		fmt.Fprintf(os.Stderr, "demo: CLUSTER=%s: must be embedded, or empty\n", *kind)
		os.Exit(2)
	}
	ctx, stop := terminal.Interruptible()
	defer stop()
	if err := run(ctx, *assets, *kind == "embedded", newPrinter(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run keeps the logs if the demo fails.
func run(ctx context.Context, assets string, embedded bool, p *printer) (err error) {
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

	p.intro(embedded)
	c, err := cluster.New(cluster.Config{Assets: assets, Dir: dir, LogDir: logs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cfg := upgrade.Config{Cluster: c, Dir: dir, OnEvent: p.event}
	if embedded {
		cfg.Addresses = addresses
	}
	w, err := upgrade.New(cfg)
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

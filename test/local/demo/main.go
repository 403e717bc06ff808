// Command demo shows two rolling upgrades of a control plane with three nodes, and the way
// back from the second one, with clients. One command
// starts each node: a sidecar, which runs a member of etcd and a kube-apiserver. Each
// upgrade brings another build of kube-apiserver. With -cluster=external, it starts a
// kube-apiserver and a sidecar for each node instead, and all share one etcd.
//
// It prints which node leads, which nodes are ready, which node blocks, the status,
// and the objects that change. After every step it checks its claims. It exits with
// 1 if a claim is false. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/e2e/upgrade"
	"github.com/lockstep-dev/lockstep/test/local/terminal"
)

// external is the only value of -cluster.
const external = "external"

var errClaims = errors.New("not all claims are true")

func main() {
	assets := flag.String("assets", "bin", "directory of the binaries")
	kind := flag.String("cluster", "", external+": the nodes share one etcd, and their sidecars start no kube-apiserver")
	flag.Parse()
	var addresses []string
	var err error
	switch *kind {
	case "":
		addresses, err = cluster.NodeAddresses(upgrade.NodeCount)
	case external:
	default:
		err = fmt.Errorf("CLUSTER=%s: must be %s, or empty", *kind, external)
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

// run keeps the logs if the demo fails. addresses are the nodes' addresses; none: they share
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

	if assets, err = filepath.Abs(assets); err != nil {
		return err
	}
	cfg := cluster.Config{Assets: assets, Dir: dir, LogDir: logs, WithoutEtcd: len(addresses) > 0}
	for _, address := range addresses {
		cfg.Addresses = append(cfg.Addresses, net.ParseIP(address))
	}
	c, err := cluster.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := upgrade.New(upgrade.Config{
		Cluster: c, Dir: dir, OnEvent: p.event, Addresses: addresses,
		// The binaries are in a directory of the repository.
		Assets: assets, Services: filepath.Join(assets, "..", "test", "local", "services"),
	})
	if err != nil {
		return err
	}
	p.intro(addresses, w.Versions())
	return walk(ctx, w, p)
}

// walk takes all steps and shows each change meanwhile.
func walk(ctx context.Context, w *upgrade.Walk, p *printer) error {
	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan error, 1) // room for the only error
	go func() { watched <- w.Run(watchCtx) }()
	begin := time.Now()
	err := takeSteps(ctx, w, p)
	stopWatch()
	err = errors.Join(err, <-watched)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err == nil:
		requests, _ := w.Requests() // a claim is that none failed
		p.summary(time.Since(begin), w.Writes(), requests)
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

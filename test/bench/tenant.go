package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The rows of the case.
const (
	rowCalm    = "a release that raises M joins, until 200 objects are applied and all nodes are ready"
	rowRefused = "the same, while a tenant sends 50 requests a second, which the fence refuses"
	rowPassed  = "the same, while the fence accepts them"
)

func tenantRows() []string { return []string{rowCalm, rowRefused, rowPassed} }

// maxUpgrades bounds the upgrades of each row: each takes seconds.
const maxUpgrades = 20

// benchTenant upgrades two nodes again and again: alone, beside a tenant whom the
// fence refuses, and beside one with the right that the fence asks for.
func benchTenant(ctx context.Context, b *bench) error {
	u := &upgrades{bench: b, times: map[string][]time.Duration{}}
	if err := u.start(ctx); err != nil {
		return err
	}
	n := min(b.opts.n, maxUpgrades)
	// The right cannot be taken back at once, so both pairs contain upgrades without the
	// tenant between upgrades with it.
	for i := range 2 * n {
		if i == n {
			if err := u.tenant.PassFence(ctx); err != nil {
				return err
			}
		}
		name := rowRefused
		if i >= n {
			name = rowPassed
		}
		if err := errors.Join(u.upgrade(ctx, rowCalm), u.disturbed(ctx, name)); err != nil {
			return err
		}
	}
	b.report.measured(rowCalm, bar{}, u.times[rowCalm])
	calm := percentile(u.times[rowCalm], 50)
	for i, name := range []string{rowRefused, rowPassed} {
		b.report.measured(name, bar{}, u.times[name])
		slower := float64(percentile(u.times[name], 50))/float64(calm) - 1
		what := []string{"refused", "accepted"}[i]
		b.report.fact("an upgrade beside a tenant whose requests are "+what+" is slower by", fmt.Sprintf("%.0f %%", 100*slower), "20 %", slower <= 0.2)
	}
	return errors.Join(u.nodes.stop(), u.api.Stop())
}

// upgrades upgrades two nodes to one release after another.
type upgrades struct {
	*bench
	api    *cluster.APIServer
	tenant *cluster.Tenant
	cfg    cluster.SidecarConfig
	nodes  trio
	minor  int
	times  map[string][]time.Duration
}

func (u *upgrades) start(ctx context.Context) (err error) {
	if u.api, err = u.startAPI("tenant"); err != nil {
		return err
	}
	if u.tenant, err = cluster.NewTenant(ctx, u.api.Config()); err != nil {
		return err
	}
	u.cfg = cluster.SidecarConfig{NodeID: "tenant", Kubeconfig: u.api.Kubeconfig(), EtcdPrefix: prefixOf("tenant")}
	if u.cfg.Bundle, err = u.release(); err != nil {
		return err
	}
	if u.nodes, err = u.startTrio(ctx, u.cfg, 2); err != nil {
		return err
	}
	return u.tenant.Learn(ctx)
}

// release writes the bundle of the next release, which raises M to itself.
func (u *upgrades) release() (string, error) {
	u.minor++
	release := fmt.Sprintf("1.%d.0", u.minor)
	objects := []string{"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: bench, namespace: default}\n"}
	for i := range 199 {
		objects = append(objects, configMap(fmt.Sprintf("tenant-%d", i), release))
	}
	return u.writeBundle(bundleSpec{name: "tenant", release: release, minReconciler: release, objects: objects})
}

// disturbed measures an upgrade while the tenant is at work, from before it until
// after it.
func (u *upgrades) disturbed(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	done, before := make(chan error, 1), u.tenant.Answered()
	go func() { done <- u.tenant.Work(ctx) }()
	for u.tenant.Answered() < before+10 && ctx.Err() == nil {
		pause(ctx, cluster.TenantPause)
	}
	err := u.upgrade(ctx, name)
	cancel()
	return errors.Join(err, <-done)
}

// upgrade replaces the second node by one of the next release, and measures it.
// Then it replaces the first one.
func (u *upgrades) upgrade(ctx context.Context, name string) error {
	var err error
	if u.cfg.Bundle, err = u.release(); err != nil {
		return err
	}
	if err := u.nodes[1].stop(); err != nil {
		return err
	}
	begin := time.Now()
	if err := u.replace(ctx, 1); err != nil {
		return err
	}
	end, err := u.nodes[1].await(ctx, "to have applied its release", view.settled)
	if err != nil {
		return err
	}
	for _, n := range u.nodes {
		at, err := n.await(ctx, "to be ready", func(v view) bool { return v.Ready.Ready })
		if err != nil {
			return err
		}
		if at.After(end) {
			end = at
		}
	}
	u.times[name] = append(u.times[name], end.Sub(begin))
	if err := u.nodes[0].stop(); err != nil {
		return err
	}
	if err := u.replace(ctx, 0); err != nil {
		return err
	}
	_, err = u.nodes[0].await(ctx, "to wait for the leadership", view.waits)
	return err
}

// replace starts a node with the newest bundle.
func (u *upgrades) replace(ctx context.Context, i int) (err error) {
	cfg := u.cfg
	cfg.NodeID = u.nodes[i].cfg.NodeID
	u.nodes[i], err = u.startNode(ctx, cfg)
	return err
}

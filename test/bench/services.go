package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// servicesCases returns the cases of sidecars that run services.
func servicesCases() []benchCase {
	return []benchCase{
		{group: "services", name: "command", run: benchCommand},
		{group: "services", name: "role", run: benchRole},
	}
}

func servicesRows() []string {
	return []string{rowCommand, rowAPIAlone, rowNodeStops, rowAPIStops, rowRole}
}

const (
	rowCommand   = "one command with an empty directory, until the gate is open: etcd, kube-apiserver, first reconciliation"
	rowAPIAlone  = "a kube-apiserver with the same flags and an empty etcd that runs already, until it is ready"
	rowNodeStops = "the node of that command is asked to stop, until all of it has ended; --shutdown-delay=0"
	rowAPIStops  = "the kube-apiserver alone is asked to stop, until it has ended"
	rowRole      = "a role is given, until the service of it is ready: a process without a probe"
)

// port is the port of the kube-apiserver in test/local/services.
const port = "6443"

// benchCommand compares a node that one command runs with its kube-apiserver alone.
func benchCommand(ctx context.Context, b *bench) error {
	var opened, alone, stopped, ended []time.Duration
	for i := range b.opts.rounds {
		took, stop, err := b.command(ctx, fmt.Sprintf("command-%d", i))
		if err != nil {
			return err
		}
		opened, stopped = append(opened, took), append(stopped, stop)
		if took, stop, err = b.apiAlone(fmt.Sprintf("alone-%d", i)); err != nil {
			return err
		}
		alone, ended = append(alone, took), append(ended, stop)
	}
	b.report.measured(rowCommand, bar{}, opened)
	b.report.measured(rowAPIAlone, bar{}, alone)
	b.report.measured(rowNodeStops, bar{}, stopped)
	b.report.measured(rowAPIStops, bar{}, ended)
	b.report.over("one command, longer than its kube-apiserver alone (p50)", middle(opened)-middle(alone), time.Second)
	b.report.over("the stop, longer than that of its kube-apiserver alone (p50)", middle(stopped)-middle(ended), time.Second)
	return nil
}

// over adds the difference of two cases as a fact.
func (r *report) over(name string, by, limit time.Duration) {
	r.fact(name, by.Round(time.Millisecond).String(), "< "+limit.String(), by < limit)
}

func middle(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}

// command runs a node by one command, and returns how long it took until its gate was
// open, and how long all of it then took to end.
func (b *bench) command(ctx context.Context, name string) (opens, stops time.Duration, err error) {
	assets, err := filepath.Abs(b.opts.assets)
	if err != nil {
		return 0, 0, err
	}
	kubeconfig := filepath.Join(b.dir, name+".kubeconfig")
	// The binaries are in a directory of the repository.
	m := b.newMember(name, kubeconfig, "--services="+filepath.Join(assets, "..", "test", "local", "services"))
	m.cfg.Env = []string{"ASSETS=" + assets, "KEYS=" + b.cluster.Keys()}
	if err := b.cluster.WriteKubeconfig(kubeconfig, "https://"+net.JoinHostPort(m.address, port)); err != nil {
		return 0, 0, err
	}
	begin, err := m.launch(ctx)
	if err != nil {
		return 0, 0, err
	}
	at, err := m.await(ctx, "to open its gate", func(v view) bool { return v.Ready.Ready })
	if err != nil {
		return 0, 0, errors.Join(err, m.stop())
	}
	stopping := time.Now()
	err = m.stop()
	return at.Sub(begin), time.Since(stopping), err
}

// apiAlone does the same with a kube-apiserver alone.
func (b *bench) apiAlone(name string) (starts, stops time.Duration, err error) {
	begin := time.Now()
	api, err := b.startAPI(name)
	if err != nil {
		return 0, 0, err
	}
	starts = time.Since(begin)
	stopping := time.Now()
	err = api.Stop()
	return starts, time.Since(stopping), err
}

// benchRole gives a node a role, and takes it away, again and again.
func benchRole(ctx context.Context, b *bench) error {
	kubeconfig, err := b.unusedKubeconfig()
	if err != nil {
		return err
	}
	services := filepath.Join(b.dir, "role-services")
	if err := os.Mkdir(services, 0o700); err != nil {
		return err
	}
	const manifest = `apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: worker}
role: kubernetes_worker
process: {command: [/bin/sleep, infinity]}
`
	if err := os.WriteFile(filepath.Join(services, "worker.yaml"), []byte(manifest), 0o600); err != nil {
		return err
	}
	noDelay := time.Duration(0)
	n, err := b.startNode(ctx, cluster.SidecarConfig{
		NodeID: "role", Kubeconfig: kubeconfig, EtcdPrefix: "/role/", ShutdownDelay: &noDelay,
		Args: []string{
			"--services=" + services, "--data-dir=" + filepath.Join(b.dir, "role-data"),
			"--node-address=127.0.0.1", // the network namespace of all cases has no default route
		},
	})
	if err != nil {
		return err
	}
	if _, err := n.await(ctx, "to register", func(v view) bool { return v.Node.RegisteredRevision != 0 }); err != nil {
		return err
	}
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: b.cluster.Etcd.Endpoints(), Prefix: "/role/", RequestTimeout: patience, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	var took []time.Duration
	for range b.opts.n {
		begin := time.Now()
		if err := giveRoles(ctx, client, "role", protocol.Roles{Controller: true, Worker: true}); err != nil {
			return err
		}
		at, err := n.await(ctx, "to run the service", func(v view) bool { return v.serves("worker") })
		if err != nil {
			return err
		}
		took = append(took, at.Sub(begin))
		if err := giveRoles(ctx, client, "role", protocol.Roles{Controller: true}); err != nil {
			return err
		}
		if _, err := n.await(ctx, "to stop the service", func(v view) bool { return !v.runs("worker") }); err != nil {
			return err
		}
	}
	b.report.measured(rowRole, bar{p99: 300 * time.Millisecond}, took)
	return n.stop()
}

func giveRoles(ctx context.Context, client *etcd.Client, id protocol.NodeID, roles protocol.Roles) error {
	return fleet.SetRoles(ctx, client, id, fleet.RoleChange{Roles: roles})
}

// serves reports whether a service runs and is ready.
func (v view) serves(name string) bool {
	return slices.ContainsFunc(v.Services, func(s serviceView) bool { return s.Name == name && s.State == "Running" && s.Ready })
}

// runs reports whether anything of a service may run.
func (v view) runs(name string) bool {
	return slices.ContainsFunc(v.Services, func(s serviceView) bool { return s.Name == name && s.State != "Stopped" })
}

// serviceView contains the fields of a service that the cases need.
type serviceView struct {
	Name, State string
	Ready       bool
}

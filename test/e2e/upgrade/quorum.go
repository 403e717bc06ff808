package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	manager "github.com/lockstep-dev/lockstep/cluster"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file is about the walk whose sidecars run etcd themselves (docs/clusters.md): one
// member on each node. The kube-apiservers keep their own etcd.

// newMember gives a node the directory and the address of its member.
func (n *node) newMember(dir, address string) {
	n.dataDir = filepath.Join(dir, "member-"+n.id)
	n.listen = address + ":8086"
	n.flags = []string{"--etcd=embedded", "--data-dir=" + n.dataDir, "--node-address=" + address, "--insecure-listen"}
}

// embedded reports whether the sidecars run etcd themselves.
func (w *Walk) embedded() bool { return len(w.cfg.Addresses) > 0 }

// command executes a command of the sidecar's program, as a person would on a node, and
// returns what it prints.
func (w *Walk) command(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, w.cfg.Cluster.SidecarBinary(), args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("sidecar %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return out, nil
}

// invite creates a token on a node, and adds what it prints to the flags of the others.
func (w *Walk) invite(ctx context.Context, first *node, others []*node) error {
	args := []string{"cluster", "token", "create", fmt.Sprintf("--uses=%d", len(others))}
	w.note(first.id + " $ sidecar " + strings.Join(args, " "))
	out, err := w.command(ctx, append(args, "--data-dir="+first.dataDir, "-o=json")...)
	if err != nil {
		return err
	}
	var token struct{ Command string }
	if err := json.Unmarshal(out, &token); err != nil {
		return fmt.Errorf("the token: %w", err)
	}
	join, found := strings.CutPrefix(token.Command, "sidecar run --etcd=embedded ")
	if !found {
		return fmt.Errorf("the command that came with the token is %q", token.Command)
	}
	for _, n := range others {
		w.note(n.id + " $ " + shortened(token.Command))
		n.flags = append(n.flags, strings.Fields(join)...)
	}
	return nil
}

// shortened leaves out the secret of a token, which is long.
func shortened(command string) string {
	before, token, found := strings.Cut(command, "--token=")
	parts := strings.SplitN(token, ".", 3)
	if !found || len(parts) < 3 {
		return command
	}
	return before + "--token=" + parts[0] + "." + parts[1] + "…"
}

// claimMembers asks every node how the members are.
func (w *Walk) claimMembers(ctx context.Context) error {
	var errs []error
	for _, n := range w.nodes {
		out, err := w.command(ctx, "cluster", "members", "--data-dir="+n.dataDir, "-o=json")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var members []struct {
			Role    string
			Healthy bool
		}
		if err := json.Unmarshal(out, &members); err != nil {
			errs = append(errs, fmt.Errorf("the members: %w", err))
			continue
		}
		voters := 0
		for _, m := range members {
			if m.Role == "voter" && m.Healthy {
				voters++
			}
		}
		if voters != NodeCount || len(members) != NodeCount {
			errs = append(errs, fmt.Errorf("%s has %d healthy voters of %d members", n.id, voters, len(members)))
		}
	}
	return errors.Join(errs...)
}

// memberClient returns a client of the members, once the first one exists.
func (w *Walk) memberClient(ctx context.Context) (*clientv3.Client, error) {
	var reach etcd.Config
	err := cluster.Poll(ctx, func(context.Context) (err error) {
		reach, err = manager.Reach(w.nodes[0].dataDir, "/")
		return err
	})
	if err != nil {
		return nil, err
	}
	files := transport.TLSInfo{TrustedCAFile: reach.CAFile, CertFile: reach.CertFile, KeyFile: reach.KeyFile}
	config, err := files.ClientConfig()
	if err != nil {
		return nil, err
	}
	for _, address := range w.cfg.Addresses[1:] {
		reach.Endpoints = append(reach.Endpoints, "https://"+address+":8088")
	}
	return clientv3.New(clientv3.Config{Endpoints: reach.Endpoints, TLS: config, Logger: zap.NewNop()})
}

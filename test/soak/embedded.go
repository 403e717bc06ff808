package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file starts the nodes if they are their own quorum (docs/clusters.md):
// each of the first three runs a member of etcd. The kube-apiservers use that etcd too,
// so that one sequence of revisions orders everything.

const (
	sidecarPort = "8086"
	clientPort  = "8088" // of the members
	// forming is the limit for a node to become a voter.
	forming = time.Minute
)

// endpoints are the URLs of etcd's members.
func (w *world) endpoints() []string {
	if w.network == nil {
		return w.cluster.Endpoints()
	}
	var out []string
	for _, id := range nodeNames[:w.shape.members] {
		out = append(out, "https://"+net.JoinHostPort(w.network.Machine(id).Address.String(), clientPort))
	}
	return out
}

// files is the directory with the CA and a certificate of the quorum, for every client without
// a member.
func (w *world) files() datadir.Layout { return datadir.Layout(filepath.Join(w.dir, "client")) }

// credentials are the flags for a client of the members: a sidecar, its commands, and a
// kube-apiserver use the same. None: it needs no certificate.
func (w *world) credentials() []string {
	if w.network == nil {
		return nil
	}
	return []string{
		"--etcd-cafile=" + w.files().CACert(), "--etcd-certfile=" + w.files().NodeCert(), "--etcd-keyfile=" + w.files().NodeKey(),
	}
}

// onMachine lets a sidecar run on its own machine, with a member or as a client of the
// members.
func (w *world) onMachine(n *node, cfg *cluster.SidecarConfig) {
	address := n.machine.Address.String()
	cfg.Wrapper, cfg.Listen = n.machine.Wrapper(), net.JoinHostPort(address, sidecarPort)
	if n.secure != nil {
		n.secure.apply(cfg)
	} else {
		cfg.Args = append(cfg.Args, "--insecure-listen", "--anonymous-status") // the soak asks from another machine
	}
	if n.dataDir == "" {
		cfg.EtcdServers = w.endpoints()
		cfg.Args = append(cfg.Args, w.credentials()...)
		return
	}
	cfg.Args = append(cfg.Args, "--etcd=embedded", "--data-dir="+n.dataDir, "--node-address="+address)
	cfg.Args = append(cfg.Args, n.join...)
}

// secondConfig configures a second sidecar with the node's ID. A data directory holds one
// member, so the second one is a client.
func (w *world) secondConfig(n *node, index int) cluster.SidecarConfig {
	if n.machine == nil {
		return w.sidecarConfig(n, index)
	}
	client := &node{machine: n.machine, pod: n.pod, secure: n.secure}
	client.as.Store(n.as.Load())
	cfg := w.sidecarConfig(client, index)
	cfg.Wrapper, cfg.Listen = nil, "" // the test's own machine reaches everything
	return cfg
}

// form creates the quorum on the first node, and lets the others join with a token.
func (w *world) form(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*forming)
	defer cancel()
	first, others := w.nodes[0], w.nodes[1:w.shape.members]
	if err := w.startLocked(first); err != nil {
		return err
	}
	if err := cluster.Poll(ctx, func(context.Context) error { return w.copyCredentials(first) }); err != nil {
		return fmt.Errorf("form: %w", err)
	}
	credentials, err := w.clientTLS()
	if err != nil {
		return err
	}
	if err := w.connect(credentials); err != nil {
		return err
	}
	if err := cluster.Poll(ctx, func(ctx context.Context) error { return w.isVoter(ctx, first) }); err != nil {
		return fmt.Errorf("form: %w", err)
	}
	flags, err := w.awaitToken(ctx, first, len(others))
	if err != nil {
		return fmt.Errorf("form: %w", err)
	}
	for _, n := range others {
		n.join = flags
		if err := w.startLocked(n); err != nil {
			return err
		}
	}
	for _, n := range others {
		if err := cluster.Poll(ctx, func(ctx context.Context) error { return w.isVoter(ctx, n) }); err != nil {
			return fmt.Errorf("form: %w", err)
		}
	}
	return nil
}

func (w *world) startLocked(n *node) error {
	n.busy.Lock()
	defer n.busy.Unlock()
	return w.start(n, 0)
}

// copyCredentials copies the certificate of a node, and fails until the node stored one.
func (w *world) copyCredentials(n *node) error {
	from, to := datadir.Layout(n.dataDir), w.files()
	for source, target := range map[string]string{
		from.CACert(): to.CACert(), from.NodeCert(): to.NodeCert(), from.NodeKey(): to.NodeKey(),
	} {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o700), os.WriteFile(target, text, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) clientTLS() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(w.files().NodeCert(), w.files().NodeKey())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	ca, err := os.ReadFile(w.files().CACert())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	out := &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: x509.NewCertPool()}
	out.RootCAs.AppendCertsFromPEM(ca)
	return out, nil
}

// isVoter returns nil if the node's member runs and votes.
func (w *world) isVoter(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout/5)
	defer cancel()
	list, err := w.etcd.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Members {
		if m.Name == n.name() && !m.IsLearner {
			return nil
		}
	}
	return fmt.Errorf("the member of %s does not vote yet", n.name())
}

// awaitToken creates a token as soon as the node can do that: it may not know yet
// that it is a member.
func (w *world) awaitToken(ctx context.Context, on *node, uses int) (flags []string, err error) {
	err = cluster.Poll(ctx, func(ctx context.Context) error {
		flags, err = w.token(ctx, on, uses)
		return err
	})
	return flags, err
}

// token creates a token on a member, and returns the flags with which another node
// joins, from the command that it prints for people.
func (w *world) token(ctx context.Context, on *node, uses int) ([]string, error) {
	out, err := w.run(ctx, "cluster", "token", "create", fmt.Sprintf("--uses=%d", uses), "-o=json", "--data-dir="+on.dataDir)
	if err != nil {
		return nil, err
	}
	var created struct{ Command string }
	if err := json.Unmarshal(out, &created); err != nil {
		return nil, fmt.Errorf("token create printed %q: %w", out, err)
	}
	return cluster.JoinFlags(created.Command)
}

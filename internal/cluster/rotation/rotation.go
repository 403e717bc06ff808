// Package rotation replaces the CA of an etcd that the sidecars run, while everything runs
// (docs/clusters.md#replace-the-ca, docs/protocol-membership.md#rotation). Each sidecar runs a Worker. It performs
// the duty of its own node, and reports that. A voter's Worker also takes the next step for all. Package
// protocol decides the next duty and step. Workers write the records in etcd through package quorum, and
// the files through package pki.
//
// Run starts one goroutine, which follows the records, and waits for it.
package rotation

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/report"
)

// Node is the node of a Worker, as the Worker uses it.
type Node interface {
	// Restart restarts the processes that trust the CAs in ca.crt: the member, and services that
	// use etcd. It returns when they work again.
	Restart(ctx context.Context) error
	// Adopt writes into the marker that the node belongs to the cluster with that CA.
	Adopt(ctx context.Context, ca pki.Hash) error
	// FetchKey gets the key (PEM) of a CA that this node trusts from another voter.
	FetchKey(ctx context.Context, ca pki.Hash) ([]byte, error)
	// Renew gets a certificate of the CA that signs now.
	Renew(ctx context.Context) error
}

// Config configures a Worker. All is required.
type Config struct {
	Client *etcd.Client
	PKI    string // the directory of the certificates
	Node   protocol.NodeID
	// ClusterID is the ID of the cluster.
	ClusterID string
	Self      Node
	// Publish is called with each state of a rotation.
	Publish func(State)
	// After is called after each step, with its name, so that tests can end the process there.
	After func(step string)
	Log   *slog.Logger
}

// State describes a rotation, for people.
type State struct {
	report.Rotation
	Active bool
}

// Worker takes part in rotations.
type Worker struct {
	cfg   Config
	state State
	woken chan struct{} // size 1: the records may be new
	// trusts are the CAs that the processes of this node trust, since they were started last.
	trusts []pki.Hash
}

// New returns a worker. It starts nothing.
func New(cfg Config) *Worker {
	return &Worker{cfg: cfg, woken: make(chan struct{}, 1)}
}

const (
	// activePause is the longest pause between two rounds while a CA is replaced, and idlePause at
	// other times, in case that a change was missed.
	activePause = time.Second
	idlePause   = time.Minute
)

// Run takes part in rotations until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer func() { stop(); follower.Wait() }()
	follower.Go(func() {
		// Also the reports: their keys begin like the record's key.
		prefix := strings.TrimSuffix(keyspace.Under(w.cfg.Client.Prefix()).Rotation(), "ion")
		_ = w.cfg.Client.Follow(following, prefix, func(etcd.Listing) {
			select {
			case w.woken <- struct{}{}:
			default: // it looks anyway
			}
		}) // its error is that ctx ended
	})
	told := ""
	for {
		err := w.round(ctx)
		problem, pause := "", idlePause
		if err != nil && ctx.Err() == nil {
			problem, pause = err.Error(), activePause
		}
		if w.state.Active {
			pause = activePause
		}
		if problem != told && problem != "" {
			w.cfg.Log.Warn("the CA is being replaced, and this node has not done its part, trying again", "err", err)
		}
		told = problem
		w.state.Problem = problem
		w.cfg.Publish(w.state)
		if !event.WaitFor(ctx, pause, w.woken) {
			return ctx.Err()
		}
	}
}

// begin reads the CAs that the processes of this node trust: they were started a moment ago.
func (w *Worker) begin() error {
	trusted, err := pki.ReadTrusted(w.cfg.PKI)
	if err != nil {
		return err
	}
	w.trusts = hashes(trusted)
	return nil
}

// round reads the record, and performs the next duty or takes the next step.
func (w *Worker) round(ctx context.Context) error {
	r, err := quorum.ReadRotation(ctx, w.cfg.Client)
	if err != nil || r.Revision == 0 {
		return err
	}
	if !r.Active() {
		w.show(quorum.Rotation{Rotation: r})
		return nil
	}
	all, err := quorum.ReadParticipants(ctx, w.cfg.Client)
	if err != nil {
		return err
	}
	w.show(all)
	at := slices.IndexFunc(all.Facts.Nodes, func(n membership.RotationNode) bool { return n.ID == w.cfg.Node })
	if at < 0 {
		return errors.New("this node is neither a member nor registered")
	}
	self, err := w.self(all.Rotation, all.Facts.Nodes[at])
	if err != nil {
		return err
	}
	if err := w.report(ctx, all.Rotation, self, all.Facts.Nodes[at]); err != nil {
		return err
	}
	if duty := membership.NextRotationDuty(all.Facts, self); duty != membership.NoDuty {
		return w.perform(ctx, all.Rotation, duty)
	}
	if !self.Voter {
		return nil
	}
	err = w.take(ctx, all)
	if errors.Is(err, etcd.ErrChanged) {
		return nil // another node took a step
	}
	return err
}

// show publishes the state of the rotation.
func (w *Worker) show(r quorum.Rotation) {
	next := StateOf(r)
	next.Problem = w.state.Problem
	w.state = next
	w.cfg.Publish(next)
}

// StateOf returns the state of a rotation, for people.
func StateOf(r quorum.Rotation) State {
	if r.Revision == 0 {
		return State{}
	}
	return State{report.Rotation{
		Phase: record.PhaseText(r.Phase), Since: report.At(r.Since), Turn: string(r.Turn),
		WaitsFor: protocol.NodeNames(r.Step().Waits), Lost: protocol.NodeNames(r.Lost),
	}, r.Active()}
}

// self returns the facts about this node.
func (w *Worker) self(r record.Rotation, stored membership.RotationNode) (membership.RotationNode, error) {
	next := pki.Hash(r.Hash)
	self := membership.RotationNode{ID: w.cfg.Node, Voter: stored.Voter, Healthy: stored.Healthy, Alive: stored.Alive}
	self.TrustsNew = slices.Contains(w.trusts, next)
	self.TrustsOld = slices.ContainsFunc(w.trusts, func(h pki.Hash) bool { return h != next })
	if _, err := pki.LoadTrusted(w.cfg.PKI, next); err == nil {
		self.HasKey = true
	} else if !errors.Is(err, pki.ErrNoKey) {
		return self, err
	}
	cert, err := pki.ReadCertificate(w.cfg.PKI)
	if err != nil {
		return self, err
	}
	trusted, err := pki.ReadTrusted(w.cfg.PKI)
	if err != nil {
		return self, err
	}
	issuer, err := pki.IssuerOf(cert, trusted)
	self.UsesNew = err == nil && pki.HashOf(issuer) == next && pki.HashOf(trusted[0]) == next
	return self, nil
}

// report writes the facts about this node, if they differ from the stored ones.
func (w *Worker) report(ctx context.Context, r record.Rotation, self, stored membership.RotationNode) error {
	if r.Phase == membership.RotationRequested || self == stored {
		return nil
	}
	cert, err := pki.ReadCertificate(w.cfg.PKI)
	if err != nil {
		return err
	}
	return quorum.WriteRotationReport(ctx, w.cfg.Client, record.RotationReport{
		Node: w.cfg.Node, CA: r.Hash, Key: pki.HashOf(cert),
		TrustsNew: self.TrustsNew, TrustsOld: self.TrustsOld, HasKey: self.HasKey, UsesNew: self.UsesNew,
	})
}

// perform performs a duty of this node. Each duty can be performed again.
func (w *Worker) perform(ctx context.Context, r record.Rotation, duty membership.RotationDuty) error {
	next, err := pki.ParseAuthority([]byte(r.Certificate))
	if err != nil {
		return fmt.Errorf("the record of the rotation: %w", err)
	}
	if pki.HashOf(next) != r.Hash {
		return errors.New("the record of the rotation has the hash of another CA")
	}
	switch duty {
	case membership.TrustBoth:
		return w.trust(ctx, next)
	case membership.FetchKey:
		return w.fetchKey(ctx, next)
	case membership.UseNewCA:
		return w.use(ctx, next)
	case membership.DropOldCA:
		return w.drop(ctx, next)
	default:
		return nil
	}
}

// trust trusts the CA that signs now, and the next one.
func (w *Worker) trust(ctx context.Context, next *x509.Certificate) error {
	signs, err := pki.ReadAuthority(w.cfg.PKI)
	if err != nil {
		return err
	}
	if err := pki.WriteTrusted(w.cfg.PKI, []*x509.Certificate{signs, next}); err != nil {
		return err
	}
	w.cfg.After("trust")
	w.cfg.Log.Info("this node trusts the new CA too, and restarts what uses it", "ca", pki.HashOf(next).String())
	return w.restart(ctx)
}

// restart restarts the processes of this node, which then trust the CAs in the file.
func (w *Worker) restart(ctx context.Context) error {
	trusted, err := pki.ReadTrusted(w.cfg.PKI)
	if err != nil {
		return err
	}
	if err := w.cfg.Self.Restart(ctx); err != nil {
		return err
	}
	w.trusts = hashes(trusted)
	w.cfg.After("restart")
	return nil
}

func (w *Worker) fetchKey(ctx context.Context, next *x509.Certificate) error {
	key, err := w.cfg.Self.FetchKey(ctx, pki.HashOf(next))
	if err != nil {
		return err
	}
	ca, err := pki.NewKeyed(next, key)
	if err != nil {
		return err
	}
	if err := pki.WriteNextKey(w.cfg.PKI, ca); err != nil {
		return err
	}
	w.cfg.After("key")
	w.cfg.Log.Info("this node has received the key of the new CA")
	return nil
}

// use makes the next CA the one that signs, and gets a certificate of it. The order matters: a renewal
// in between makes a certificate of the new one.
func (w *Worker) use(ctx context.Context, next *x509.Certificate) error {
	trusted, err := pki.ReadTrusted(w.cfg.PKI)
	if err != nil {
		return err
	}
	all := []*x509.Certificate{next}
	for _, ca := range trusted {
		if pki.HashOf(ca) != pki.HashOf(next) {
			all = append(all, ca)
		}
	}
	if err := pki.WriteTrusted(w.cfg.PKI, all); err != nil {
		return err
	}
	w.cfg.After("sign")
	if err := w.cfg.Self.Renew(ctx); err != nil {
		return err
	}
	w.cfg.After("use")
	w.cfg.Log.Info("this node uses a certificate of the new CA")
	return nil
}

// drop trusts only the next CA. Before it drops the old CA, it replaces the old key by the new one, and a
// node that was a voter deletes the old key: the files for keys must always contain the key of a CA that
// the node trusts. With another key, no sidecar starts.
func (w *Worker) drop(ctx context.Context, next *x509.Certificate) error {
	if err := w.cfg.Self.Adopt(ctx, pki.HashOf(next)); err != nil {
		return err
	}
	w.cfg.After("adopt")
	if err := pki.AdoptNextKey(w.cfg.PKI); err != nil {
		return err
	}
	if err := pki.DropKeys(w.cfg.PKI, next); err != nil {
		return err
	}
	w.cfg.After("keys")
	if err := pki.WriteTrusted(w.cfg.PKI, []*x509.Certificate{next}); err != nil {
		return err
	}
	w.cfg.After("drop")
	w.cfg.Log.Info("this node does not trust the old CA any more, and restarts what uses it")
	return w.restart(ctx)
}

func hashes(all []*x509.Certificate) (out []pki.Hash) {
	for _, cert := range all {
		out = append(out, pki.HashOf(cert))
	}
	return out
}

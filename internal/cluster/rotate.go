package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/rotation"
	"github.com/lockstep-dev/lockstep/protocol"
)

// rotating is this node as the replacement of the CA uses it (docs/protocol-membership.md#rotation).
type rotating struct {
	m *Manager
	f *flow
}

// rotate takes part in replacements of the CA until ctx ends.
func (m *Manager) rotate(ctx context.Context, f *flow) error {
	return rotation.New(rotation.Config{
		Client: f.client, PKI: f.dir.PKI(), Node: protocol.NodeID(f.cfg.Node), ClusterID: func() string { return f.marker.Cluster },
		Self: rotating{m, f}, Publish: m.rotation.Set, After: func(done string) { afterStep("rotate", done) },
		Log: f.plainLog.With("worker", "rotation"),
	}).Run(ctx)
}

// Rotation follows the replacement of the cluster's CA.
func (m *Manager) Rotation() *event.Value[rotation.State] { return m.rotation }

// errNotSettled is returned while the node is about to become a member, or leaves.
var errNotSettled = errors.New("this node becomes a member, or leaves, at the moment")

// Restart implements rotation.Node.
func (r rotating) Restart(ctx context.Context) error {
	trust := ""
	f := r.f
	err := r.m.step(ctx, func(ctx context.Context, _ *change) (err error) {
		if trust, err = trustOf(f.dir.Layout); err != nil {
			return err
		}
		if f.marker.Phase.Changing() {
			return errNotSettled
		}
		if f.marker.Phase == datadir.Member {
			f.endMember()
			if err := startOldMember(ctx, f); err != nil {
				return err
			}
			if err := awaitMember(ctx, f); err != nil {
				return err
			}
			f.show("")
		}
		f.client.Reconnect()
		f.shared.change(func(now *Membership) { now.Trust = trust })
		return nil
	})
	if err != nil || r.m.cfg.AwaitServices == nil {
		return err
	}
	return r.m.cfg.AwaitServices(ctx, trust)
}

// Adopt implements rotation.Node.
func (r rotating) Adopt(ctx context.Context, ca pki.Hash) error {
	return r.m.step(ctx, func(_ context.Context, c *change) error {
		return c.writeMarker(func(m *datadir.Marker) { m.CAHash = ca.String() })
	})
}

// FetchKey implements rotation.Node.
func (r rotating) FetchKey(ctx context.Context, ca pki.Hash) ([]byte, error) {
	all, err := quorum.List(ctx, r.f.client)
	if err != nil {
		return nil, err
	}
	errs := []error{errNoSigner}
	for _, v := range all {
		if v.Learner || v.JoinURL == "" || string(v.Node) == r.f.cfg.Node {
			continue
		}
		key, err := enrol.AskKey(ctx, v.JoinURL, r.f.dir.PKI(), ca)
		if err == nil && len(key) > 0 {
			return key, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Renew implements rotation.Node.
func (r rotating) Renew(ctx context.Context) error {
	_, err := pki.Renew(r.f.dir.PKI(), r.f.cfg.Node, r.f.cfg.Address, time.Now())
	if errors.Is(err, pki.ErrNoKey) {
		err = r.f.renewElsewhere(ctx)
	}
	if err != nil {
		return fmt.Errorf("get a certificate of the new CA: %w", err)
	}
	r.f.announceRenewed(ctx)
	return nil
}

// trustOf says which CAs a data directory trusts. It stays the same when one of them is renewed.
func trustOf(l datadir.Layout) (string, error) {
	all, err := pki.ReadTrusted(l.PKI())
	if err != nil {
		return "", err
	}
	var out []string
	for _, ca := range all {
		out = append(out, pki.HashOf(ca).String())
	}
	slices.Sort(out)
	return strings.Join(out, ","), nil
}

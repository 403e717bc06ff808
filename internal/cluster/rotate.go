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
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/rotation"
	"github.com/lockstep-dev/lockstep/protocol"
)

// rotating is a node as the replacement of the CA uses it (docs/protocol-membership.md#rotation).
type rotating struct {
	*node
	// awaitServices is Config.AwaitServices.
	awaitServices func(ctx context.Context, trust string) error
}

// rotate takes part in replacements of the CA until ctx ends.
func (n *node) rotate(ctx context.Context, publish func(rotation.State), awaitServices func(context.Context, string) error) error {
	return rotation.New(rotation.Config{
		Client: n.client, PKI: n.dir.PKI(), Node: protocol.NodeID(n.cfg.Node), ClusterID: n.cluster,
		Self: rotating{n, awaitServices}, Publish: publish, After: func(done string) { afterStep("rotate", done) },
		Log: n.process.log.With("worker", "rotation"),
	}).Run(ctx)
}

// Rotation follows the replacement of the cluster's CA.
func (m *Manager) Rotation() *event.Value[rotation.State] { return m.rotation }

// errNotSettled is returned while the node is about to become a member, or leaves.
var errNotSettled = errors.New("this node becomes a member, or leaves, at the moment")

// Restart implements rotation.Node.
func (r rotating) Restart(ctx context.Context) error {
	trust := ""
	err := r.step(ctx, func(ctx context.Context, _ *change) (err error) {
		if trust, err = trustOf(r.dir.Layout); err != nil {
			return err
		}
		if r.marker.Phase.Changing() {
			return errNotSettled
		}
		if r.marker.Phase == datadir.Member {
			r.endMember()
			if err := r.startOld(ctx); err != nil {
				return err
			}
			if err := r.await(ctx); err != nil {
				return err
			}
			r.show("")
		}
		r.client.Reconnect()
		r.shared.change(func(now *Membership) { now.Trust = trust })
		return nil
	})
	if err != nil || r.awaitServices == nil {
		return err
	}
	return r.awaitServices(ctx, trust)
}

// Adopt implements rotation.Node.
func (r rotating) Adopt(ctx context.Context, ca pki.Hash) error {
	return r.step(ctx, func(_ context.Context, c *change) error {
		return c.writeMarker(func(m *datadir.Marker) { m.CAHash = ca.String() })
	})
}

// FetchKey implements rotation.Node.
func (r rotating) FetchKey(ctx context.Context, ca pki.Hash) ([]byte, error) {
	return r.signers.key(ctx, ca)
}

// Renew implements rotation.Node.
func (r rotating) Renew(ctx context.Context) error {
	_, err := pki.Renew(r.dir.PKI(), r.cfg.Node, r.cfg.Address, time.Now())
	if errors.Is(err, pki.ErrNoKey) {
		err = r.signers.renew(ctx)
	}
	if err != nil {
		return fmt.Errorf("get a certificate of the new CA: %w", err)
	}
	r.record.renewed(ctx)
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

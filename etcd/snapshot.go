package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// ErrNoLeader is returned by a server of a cluster that lost the majority of its members, or is
// electing a leader.
var ErrNoLeader = rpctypes.ErrNoLeader

// Snapshot returns the whole store of the server in use, as etcd's own tools save and restore
// it. ctx bounds the reading too. Without a leader, stale is true, and the store is this
// server's copy: the newest writes may be missing.
func (c *Client) Snapshot(ctx context.Context) (store io.ReadCloser, stale bool, err error) {
	// A linearizable read first: it leaves a server that cannot serve.
	err = c.Check(ctx)
	stale = errors.Is(err, ErrNoLeader)
	if err != nil && !stale {
		return nil, false, fmt.Errorf("read a snapshot: %w", err)
	}
	out, err := c.link().client.Snapshot(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("read a snapshot: %w", err)
	}
	return out, stale, nil
}

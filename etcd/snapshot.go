package etcd

import (
	"context"
	"fmt"
	"io"
)

// Snapshot returns the whole store of the server in use, as etcd's own tools save and
// restore it. ctx bounds the reading too.
func (c *Client) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	// A linearizable read first: it leaves a server that cannot serve.
	if err := c.Check(ctx); err != nil {
		return nil, fmt.Errorf("read a snapshot: %w", err)
	}
	out, err := c.link().client.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read a snapshot: %w", err)
	}
	return out, nil
}

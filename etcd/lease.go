package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// LeaseLeft returns the time until a lease ends if it is not kept alive; 0: it ended.
func (c *Client) LeaseLeft(ctx context.Context, lease int64) (time.Duration, error) {
	resp, err := membership(ctx, c, reads, func(ctx context.Context, client *clientv3.Client) (*clientv3.LeaseTimeToLiveResponse, error) {
		return client.TimeToLive(ctx, clientv3.LeaseID(lease))
	})
	if err != nil {
		return 0, fmt.Errorf("read what is left of a lease: %w", err)
	}
	return time.Duration(max(resp.TTL, 0)) * time.Second, nil // -1: it ended
}

package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// SaveSnapshot writes a snapshot of the first etcd member into a file.
func (c *Cluster) SaveSnapshot(ctx context.Context, file string) error {
	return etcdtest.SaveSnapshot(ctx, "http://"+c.Members[0].Addr(), file)
}

// RestoreMembers kills all etcd members, and starts them with the data that the
// program etcdutl in Assets restores from a snapshot. bump raises the revision by this
// much, and marks everything below as compacted; 0: the revision goes back.
func (c *Cluster) RestoreMembers(ctx context.Context, snapshot string, bump int64) error {
	var names []string
	for _, m := range c.Members {
		names = append(names, m.name+"="+m.peerURL())
		if err := m.Process().Kill(); err != nil {
			return fmt.Errorf("restore etcd: %w", err)
		}
	}
	r := etcdtest.Restoration{Etcdutl: filepath.Join(c.cfg.Assets, "etcdutl"), File: snapshot, Bump: bump}
	for _, m := range c.Members {
		if err := m.restore(ctx, r, strings.Join(names, ",")); err != nil {
			return fmt.Errorf("restore %s: %w", m.name, err)
		}
	}
	for _, m := range c.Members {
		if err := m.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// peerURL is how the other members dial this one, through their outlets.
func (m *Member) peerURL() string { return fmt.Sprintf("http://%s:2380", m.name) }

func (m *Member) restore(ctx context.Context, r etcdtest.Restoration, all string) error {
	dir, err := r.DataDir(ctx, m.cluster.cfg.Dir, etcdtest.RestoredMember{Name: m.name, PeerURL: m.peerURL(), All: all})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.dir = dir
	m.mu.Unlock()
	return m.begin()
}

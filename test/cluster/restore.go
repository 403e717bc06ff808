package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// SaveSnapshot writes a snapshot of the first etcd member into a file, as `etcdctl
// snapshot save` does.
func (c *Cluster) SaveSnapshot(ctx context.Context, file string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + c.Members[0].Addr()}, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	defer client.Close()
	snapshot, err := client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	defer snapshot.Close()
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	_, err = io.Copy(out, snapshot)
	return errors.Join(err, out.Close())
}

// RestoreMembers kills all etcd members, and starts them with what the program
// etcdutl in Assets makes of a snapshot. bump raises the revision by this much, and
// marks everything below as compacted; 0: the revision goes back.
func (c *Cluster) RestoreMembers(ctx context.Context, snapshot string, bump int64) error {
	var names []string
	for _, m := range c.Members {
		names = append(names, m.name+"="+m.peerURL())
		if err := m.Process().Kill(); err != nil {
			return fmt.Errorf("restore etcd: %w", err)
		}
	}
	for _, m := range c.Members {
		if err := m.restore(ctx, snapshot, bump, strings.Join(names, ",")); err != nil {
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

func (m *Member) restore(ctx context.Context, snapshot string, bump int64, all string) error {
	parent, err := os.MkdirTemp(m.cluster.cfg.Dir, m.name+"-restored-")
	if err != nil {
		return err
	}
	dir := filepath.Join(parent, "data") // etcdutl creates it
	args := []string{
		"snapshot", "restore", snapshot, "--data-dir", dir, "--name", m.name,
		"--initial-cluster", all, "--initial-advertise-peer-urls", m.peerURL(),
	}
	if bump > 0 {
		args = append(args, "--bump-revision", fmt.Sprint(bump), "--mark-compacted")
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(m.cluster.cfg.Assets, "etcdutl"), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	m.mu.Lock()
	m.dir = dir
	m.mu.Unlock()
	return m.begin()
}

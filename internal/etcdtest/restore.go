package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcdutl returns the path of etcd's own tool for snapshots. It skips the test loudly
// if LOCKSTEP_E2E_ASSETS is not set, and fails it if the tool is missing.
func Etcdutl(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LOCKSTEP_E2E_ASSETS")
	if dir == "" {
		t.Skip("SKIPPED, NOT TESTED: needs a real etcdutl; run `make test`, or build it and set LOCKSTEP_E2E_ASSETS to its directory")
	}
	tool := filepath.Join(dir, "etcdutl")
	if _, err := os.Stat(tool); err != nil {
		t.Fatalf("LOCKSTEP_E2E_ASSETS: %v; `make bin/etcdutl` builds it", err)
	}
	return tool
}

// Save writes a snapshot of the server into a file, as `etcdctl snapshot save` does.
func (s *Server) Save(ctx context.Context, file string) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
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
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	return nil
}

// Restoration is how Restore restores a snapshot.
type Restoration struct {
	Etcdutl string // the tool
	File    string // the snapshot
	// Bump raises the revision by this much, and marks everything below as compacted.
	// 0: the revision goes back to that of the snapshot.
	Bump int64
}

// Restore stops the server, and starts it with what etcdutl makes of a snapshot, at
// the same address. The ID of the etcd cluster stays the same.
func (s *Server) Restore(ctx context.Context, r Restoration) error {
	s.Stop()
	dir, err := os.MkdirTemp(filepath.Dir(r.File), "restored-")
	if err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	dir = filepath.Join(dir, "data") // etcdutl creates it
	args := []string{
		"snapshot", "restore", r.File, "--data-dir", dir, "--name", "default",
		"--initial-cluster", "default=" + peerURL, "--initial-advertise-peer-urls", peerURL,
	}
	if s.cfg.Token != "" {
		args = append(args, "--initial-cluster-token", s.cfg.Token)
	}
	if r.Bump > 0 {
		args = append(args, "--bump-revision", fmt.Sprint(r.Bump), "--mark-compacted")
	}
	if out, err := exec.CommandContext(ctx, r.Etcdutl, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("restore etcd: %w\n%s", err, out)
	}
	s.mu.Lock()
	s.cfg.Dir = dir
	s.mu.Unlock()
	return s.Restart()
}

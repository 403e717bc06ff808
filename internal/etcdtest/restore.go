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

// Save writes a snapshot of the server into a file.
func (s *Server) Save(ctx context.Context, file string) error {
	return SaveSnapshot(ctx, s.Endpoints()[0], file)
}

// SaveSnapshot writes a snapshot of the etcd member at an endpoint into a file, as
// `etcdctl snapshot save` does.
func SaveSnapshot(ctx context.Context, endpoint, file string) (err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
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

// Restoration is how a snapshot is restored.
type Restoration struct {
	Etcdutl string // the tool
	File    string // the snapshot
	// Bump raises the revision by this much, and marks everything below as compacted. 0: the
	// revision goes back to the snapshot's.
	Bump int64
}

// RestoredMember is the etcd member that a snapshot is restored for.
type RestoredMember struct {
	Name, PeerURL string
	All           string // all members of the cluster, NAME=PEERURL with commas between them
	Token         string // of the cluster; empty: etcd's default
}

// DataDir creates a data directory for a member below parent, from the snapshot.
func (r Restoration) DataDir(ctx context.Context, parent string, m RestoredMember) (string, error) {
	dir, err := os.MkdirTemp(parent, m.Name+"-restored-")
	if err != nil {
		return "", fmt.Errorf("restore etcd: %w", err)
	}
	dir = filepath.Join(dir, "data") // etcdutl creates it
	args := []string{
		"snapshot", "restore", r.File, "--data-dir", dir, "--name", m.Name,
		"--initial-cluster", m.All, "--initial-advertise-peer-urls", m.PeerURL,
	}
	if m.Token != "" {
		args = append(args, "--initial-cluster-token", m.Token)
	}
	if r.Bump > 0 {
		args = append(args, "--bump-revision", fmt.Sprint(r.Bump), "--mark-compacted")
	}
	if out, err := exec.CommandContext(ctx, r.Etcdutl, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("restore etcd: %w\n%s", err, out)
	}
	return dir, nil
}

// Restore stops the server, lets etcdutl restore a snapshot, and starts the server from it at
// the same address. The ID of the etcd cluster stays the same.
func (s *Server) Restore(ctx context.Context, r Restoration) error {
	s.Stop()
	dir, err := r.DataDir(ctx, filepath.Dir(r.File), RestoredMember{
		Name: "default", PeerURL: peerURL, All: "default=" + peerURL, Token: s.cfg.Token,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.cfg.Dir = dir
	s.mu.Unlock()
	return s.Restart()
}

package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestClose_sidecarsAtOnce: each of two programs ends only when both got the signal.
func TestClose_sidecarsAtOnce(t *testing.T) {
	t.Parallel()
	dir, signs := t.TempDir(), t.TempDir()
	program := fmt.Sprintf(`#!/bin/sh
cd %q
trap 'touch "ends$2"; while [ "$(ls | grep -c ends)" -lt 2 ]; do sleep 0.05; done; exit 0' TERM
touch "runs$2"
while :; do sleep 0.05; done
`, signs)
	if err := os.WriteFile(filepath.Join(dir, "sidecar"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Attach(cluster.Config{Assets: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var all []*cluster.Sidecar
	for _, id := range []string{"a", "b"} {
		s, err := c.LaunchSidecar(cluster.SidecarConfig{NodeID: id, EtcdInArgs: true})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		cluster.Await(t, id+" to run", func(context.Context) error {
			_, err := os.Stat(filepath.Join(signs, "runs--node-id="+id))
			return err
		})
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if code := s.ExitCode(); code != 0 {
			t.Errorf("%s ended with the exit code %d", s.NodeID, code)
		}
	}
}

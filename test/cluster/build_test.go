package cluster

import (
	"errors"
	"os"
	"testing"
)

// Tests that run beside each other share a program, and the last one deletes it.
func TestBuild(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T) string {
		t.Helper()
		path := build(t, "pause", "github.com/lockstep-dev/lockstep/test/kubeadm/pause")
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		return path
	}
	var first, second, later string
	t.Run("beside each other", func(t *testing.T) {
		first = pause(t)
		t.Run("inner", func(t *testing.T) { second = pause(t) })
		if _, err := os.Stat(first); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no test uses the program: %v", err)
	}
	t.Run("later", func(t *testing.T) { later = pause(t) })
	if first != second || later == first {
		t.Errorf("got %s, %s, and later %s", first, second, later)
	}
}

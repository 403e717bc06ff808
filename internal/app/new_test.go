package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

func TestLocalOf(t *testing.T) {
	b, err := bundle.Open("")
	if err != nil {
		t.Fatal(err)
	}
	got := localOf(Config{NodeID: "me", ExpireDeadNodes: time.Hour}, b)
	if got.ID != "me" || got.FenceAfter != time.Hour || got.Digest != b.Digest {
		t.Errorf("got %+v", got)
	}
}

func TestNew_badInput(t *testing.T) {
	api := newCountingAPI(t)
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no kubeconfig":        {func(c *Config) { c.Kubeconfig = filepath.Join(t.TempDir(), "none") }, "kubeconfig"},
		"no bundle":            {func(c *Config) { c.Bundle = filepath.Join(t.TempDir(), "none") }, "none"},
		"an empty bundle":      {func(c *Config) { c.Bundle = t.TempDir() }, "has no bundle.yaml"},
		"constraints too high": {func(c *Config) { c.Bundle = bundleAbove(t) }, "above the release"},
		"a port in use":        {func(c *Config) { c.Listen = strings.TrimPrefix(etcdtest.New(t).Endpoints()[0], "http://") }, "--listen"},
		"a CA that is no CA":   {func(c *Config) { c.Etcd.CAFile = api.kubeconfig }, "PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configure(t, "http://127.0.0.1:1", api)
			tc.change(&cfg)
			a, err := New(cfg, slog.New(slog.DiscardHandler))
			if err == nil {
				_ = a.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something about %q", err, tc.want)
			}
		})
	}
}

// bundleAbove writes a bundle whose constraint is above its release.
func bundleAbove(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"bundle.yaml": "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: x}\nrelease: 1.0.0\nminReconcilerRelease: 1.0.1\nminApiserverRelease: 1.0.0\n",
		"ns.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

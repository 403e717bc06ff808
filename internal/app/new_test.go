package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

func TestNew_badInput(t *testing.T) {
	api := newCountingAPI(t)
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no kubeconfig":        {func(c *Config) { c.Kubeconfig = filepath.Join(t.TempDir(), "none") }, "kubeconfig"},
		"no name of a bundle":  {func(c *Config) { c.Bundle = "" }, "no bundle is named"},
		"no bundle":            {func(c *Config) { c.Bundle = filepath.Join(t.TempDir(), "none") }, "none"},
		"an empty bundle":      {func(c *Config) { c.Bundle = t.TempDir() }, "has no bundle.yaml"},
		"constraints too high": {func(c *Config) { c.Bundle = bundleAbove(t) }, "above the release"},
		"a port in use":        {func(c *Config) { c.Listen = strings.TrimPrefix(etcdtest.New(t).Endpoints()[0], "http://") }, "stop that first; another node"},
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

// Without a flag, only clients on this machine read more than the health endpoints, by
// names of this sidecar. Where another program mounts the handler, that program decides.
func TestNew_whoMayRead(t *testing.T) {
	api := newCountingAPI(t)
	for name, tc := range map[string]struct {
		change  func(*Config)
		host    string
		from    string
		refused bool
	}{
		"a client here":                           {func(*Config) {}, "127.0.0.1:8086", "127.0.0.1:1", false},
		"a client elsewhere":                      {func(*Config) {}, "127.0.0.1:8086", "10.0.0.2:1", true},
		"a client elsewhere, allowed":             {func(c *Config) { c.AnonymousStatus = true }, "127.0.0.1:8086", "10.0.0.2:1", false},
		"a client elsewhere, no listener":         {func(c *Config) { c.Listen = "" }, "agent.example", "10.0.0.2:1", false},
		"another name":                            {func(*Config) {}, "evil.example:8086", "127.0.0.1:1", true},
		"another name, allowed to all":            {func(c *Config) { c.AnonymousStatus = true }, "evil.example:8086", "127.0.0.1:1", true},
		"the name for other machines":             {func(c *Config) { c.AdvertiseURL = "http://CP-1.example:8086" }, "cp-1.example:8086", "127.0.0.1:1", false},
		"the name of the host":                    {func(*Config) {}, hostname(t), "127.0.0.1:1", false},
		"the name in the address of the listener": {func(c *Config) { c.Listen = "localhost:0" }, "localhost", "127.0.0.1:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configure(t, "http://127.0.0.1:1", api)
			tc.change(&cfg)
			a, err := New(cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			for target, forbidden := range map[string]bool{"/status": tc.refused, "/livez": false} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
				r.Host, r.RemoteAddr = tc.host, tc.from
				w := httptest.NewRecorder()
				a.Handler().ServeHTTP(w, r)
				if (w.Code == http.StatusForbidden) != forbidden {
					t.Errorf("%s: got %d %s", target, w.Code, w.Body)
				}
			}
		})
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}

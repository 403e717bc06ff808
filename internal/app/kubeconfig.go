package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
)

// restConfig reads the kubeconfig.
func restConfig(path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
	}
	return cfg, nil
}

// notLocal returns a warning if the kubeconfig's server is not an address of this
// machine; empty: it is. A leader must reach the kube-apiserver of its node: a load balancer
// sends no requests to one that is not ready (docs/protocol.md#yielding).
func notLocal(cfg *rest.Config) string {
	u, err := url.Parse(cfg.Host)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	ips, err := net.LookupIP(u.Hostname())
	if err != nil {
		return fmt.Sprintf("kubeconfig: server %s cannot be resolved: %v", cfg.Host, err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, ip := range ips {
		if ip.IsLoopback() || isOneOf(addrs, ip) {
			return ""
		}
	}
	return fmt.Sprintf("kubeconfig: server %s is not an address of this machine; use this node's kube-apiserver, never a load balancer", cfg.Host)
}

func isOneOf(addrs []net.Addr, ip net.IP) bool {
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

const (
	apiPollInterval = time.Second
	apiPollTimeout  = time.Second
	// maxAPIAnswer limits in bytes how much of a failing /readyz is shown.
	maxAPIAnswer = 512
)

// pollAPIServer requests /readyz of this node's kube-apiserver and publishes the
// result, for --apiserver-readyz, until ctx ends. No probe waits for it.
func pollAPIServer(ctx context.Context, cfg *rest.Config, state *event.Value[httpapi.APIServer]) error {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = apiPollTimeout
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return fmt.Errorf("poll this node's kube-apiserver: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return fmt.Errorf("poll this node's kube-apiserver: %w", err)
	}
	tick := time.NewTicker(apiPollInterval)
	defer tick.Stop()
	for {
		problem := askAPIServer(ctx, client, base.JoinPath("readyz").String())
		if now := (httpapi.APIServer{Enabled: true, Ready: problem == "", Message: problem}); now != state.Get() && ctx.Err() == nil {
			state.Set(now)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// askAPIServer returns why the kube-apiserver is not ready; empty: it is.
func askAPIServer(ctx context.Context, client *http.Client, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAPIAnswer))
	if err != nil {
		return err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return ""
}

// Package kubeconfig reads and follows kubeconfig files. It owns the rule that the last valid
// version stays in use, and the warning about a server on another machine. It sends no request
// to a server: File.Transport does that for others.
package kubeconfig

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// Read reads a kubeconfig, and the files that it names.
func Read(path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err == nil {
		err = rest.LoadTLSFiles(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
	}
	return cfg, nil
}

const (
	// readInterval is the pause between two reads of the kubeconfig, and of the files that it names.
	readInterval = 10 * time.Second
	// localityInterval is the pause between two checks whether the server is on
	// this machine.
	localityInterval = time.Minute
	lookupTimeout    = 5 * time.Second
)

// Server is where a kubeconfig's server may be.
type Server int

// The places of a server.
const (
	// Local is a server on this machine. Another one causes a warning.
	Local Server = iota
	// Anywhere is a server on any machine.
	Anywhere
)

// File follows a kubeconfig file. If a change is invalid (half written, or the key does not match
// the certificate), the last valid version stays in use.
type File struct {
	path      string
	server    Server
	log       *slog.Logger
	transport *kube.Transport
	config    *event.Value[*rest.Config]
	warnings  *event.Value[[]string]

	// Only Run uses the fields below, after Open.
	seen    [sha256.Size]byte // the checksum of the valid version
	problem string            // why the current files cannot be used; empty: they are used
	remote  string            // warns that the server is not on this machine; empty: it is
	checked time.Time         // when remote was last checked
}

// Open reads a kubeconfig. It sends no request.
func Open(path string, server Server, log *slog.Logger) (*File, error) {
	k := &File{path: path, server: server, log: log, warnings: event.New[[]string](nil)}
	cfg, sum, err := k.read()
	if err != nil {
		return nil, err
	}
	if k.transport, err = kube.NewTransport(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", path, err)
	}
	k.config, k.seen = event.New(cfg), sum
	return k, nil
}

// Transport sends requests with the newest valid version.
func (k *File) Transport() *kube.Transport { return k.transport }

// Config follows the newest valid version, with the content of the files that it names.
func (k *File) Config() *event.Value[*rest.Config] { return k.config }

// Warnings follows the problems of the kubeconfig, for people.
func (k *File) Warnings() *event.Value[[]string] { return k.warnings }

// Path returns the path of the kubeconfig.
func (k *File) Path() string { return k.path }

// Origin returns the file that a part of the kubeconfig was read from: one that the kubeconfig
// names, or the kubeconfig itself. Empty: the part is missing.
func (k *File) Origin(file string, content []byte) string {
	if len(content) == 0 {
		return ""
	}
	return cmp.Or(file, k.path)
}

// read reads the kubeconfig, for requests that must reach this node's kube-apiserver. It does not
// use a proxy from the environment: that is meant for other servers, and may hold back a request
// for longer than the protocol assumes (docs/protocol.md#assumptions). The checksum changes with
// the content of the files.
func (k *File) read() (*rest.Config, [sha256.Size]byte, error) {
	// Read this first: if the file changes in between, the checksum covers the older content, and the
	// next read differs.
	raw, err := os.ReadFile(k.path)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("kubeconfig: %w", err)
	}
	cfg, err := Read(k.path)
	if err != nil {
		return nil, [sha256.Size]byte{}, err
	}
	if cfg.Proxy == nil {
		cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	sum := sha256.New()
	for _, content := range [][]byte{raw, cfg.CAData, cfg.CertData, cfg.KeyData, []byte(cfg.BearerToken)} {
		fmt.Fprintf(sum, "%d\n%s", len(content), content)
	}
	return cfg, [sha256.Size]byte(sum.Sum(nil)), nil
}

// Run reads the files again when they change, and checks whether the server is on
// this machine, until ctx ends.
func (k *File) Run(ctx context.Context) error {
	check := func() {
		k.reload()
		k.checkServer(ctx)
		k.warn()
	}
	check()
	return backoff.Every(ctx, readInterval, check)
}

// reload starts to use the files if they are valid and changed.
func (k *File) reload() {
	cfg, sum, err := k.read()
	if err == nil && sum != k.seen {
		if err = k.transport.Use(cfg); err == nil {
			k.seen, k.checked = sum, time.Time{}
			k.config.Set(cfg)
			k.log.Info("kubeconfig reloaded", "server", cfg.Host)
		} else {
			err = fmt.Errorf("kubeconfig %q: %w", k.path, err)
		}
	}
	k.problem = ""
	if err != nil {
		k.problem = err.Error() + "; the last valid version stays in use: repair the file, it is read again by itself"
	}
}

// warn publishes the warnings, and logs each new one.
func (k *File) warn() {
	now := slices.DeleteFunc([]string{k.problem, k.remote, proxied(k.config.Get())}, func(w string) bool { return w == "" })
	before := k.warnings.Get()
	if slices.Equal(now, before) {
		return
	}
	k.warnings.Set(now)
	for _, w := range now {
		if !slices.Contains(before, w) {
			k.log.Warn("kubeconfig", "problem", w)
		}
	}
}

// proxied returns a warning if the kubeconfig contains a proxy-url; empty: it does not.
func proxied(cfg *rest.Config) string {
	proxy, err := cfg.Proxy(&http.Request{URL: &url.URL{}})
	if proxy == nil || err != nil {
		return ""
	}
	return fmt.Sprintf("kubeconfig: requests go through the proxy-url %s, which may hold them back for longer than Lockstep assumes; remove proxy-url", proxy.Redacted())
}

// checkServer checks every localityInterval whether the server is on this machine.
func (k *File) checkServer(ctx context.Context) {
	if k.server == Anywhere || time.Since(k.checked) < localityInterval {
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	k.remote, k.checked = notLocal(limited, k.config.Get().Host), time.Now()
}

// notLocal returns a warning if the kubeconfig's server is not an address of this machine; empty:
// it is, or it is unknown. A leader must reach its own node's kube-apiserver: a load balancer sends
// no requests to one that is not ready (docs/protocol.md#yielding).
func notLocal(ctx context.Context, server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, u.Hostname())
	if err != nil {
		return fmt.Sprintf("kubeconfig: server %s cannot be resolved: %v", server, err)
	}
	for _, ip := range ips {
		own, err := nodeaddress.IsOwn(ip.IP)
		if ip.IP.IsLoopback() || own || err != nil {
			return ""
		}
	}
	return fmt.Sprintf("kubeconfig: server %s is not an address of this machine; use this node's kube-apiserver, never a load balancer", server)
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// apiserverTimeout bounds a start. It takes five seconds on two idle cores.
const apiserverTimeout = 3 * time.Minute

// APIServerConfig configures a kube-apiserver.
type APIServerConfig struct {
	Name string   // of its log and kubeconfig; required, unique among those that run
	Addr string   // host:port to listen on; empty: a free one on loopback
	Args []string // more flags; they override the flags of this package
	// EtcdServers are the URLs at which it reaches the cluster's etcd; empty: etcd's
	// endpoints.
	EtcdServers []string
	// Wrapper is a program with its arguments that becomes the kube-apiserver, such as
	// nsenter; empty: none.
	Wrapper []string
}

// APIServer is a kube-apiserver on loopback.
type APIServer struct {
	*Process
	Cluster *Cluster

	addr       string
	kubeconfig string
}

// StartAPIServer starts a kube-apiserver on the cluster's etcd. It returns when the
// server is ready, with its RBAC roles and default namespaces. The server authorizes
// by RBAC and authenticates by client certificate. All kube-apiservers of a cluster
// serve the same objects.
func (c *Cluster) StartAPIServer(cfg APIServerConfig) (*APIServer, error) {
	if cfg.Name == "" || len(c.Endpoints()) == 0 && len(cfg.EtcdServers) == 0 {
		return nil, errors.New("start kube-apiserver: APIServerConfig.Name and an etcd are required")
	}
	name := "kube-apiserver-" + cfg.Name
	if cfg.Addr == "" {
		var err error
		if cfg.Addr, err = etcdtest.FreeAddr(); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	a := &APIServer{
		Cluster:    c,
		addr:       cfg.Addr,
		kubeconfig: filepath.Join(c.cfg.Dir, cfg.Name+".kubeconfig"),
	}
	if err := c.WriteKubeconfig(a.kubeconfig, a.URL()); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	remember, err := c.prepareBoot()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	a.Process, err = c.start("kube-apiserver", processConfig{
		name: name, args: append(c.apiserverArgs(host, port, cfg.EtcdServers), cfg.Args...), wrapper: cfg.Wrapper,
	})
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(a.Config())
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ready := func(ctx context.Context) error { return a.ready(ctx, client) }
	if err := a.AwaitStart(apiserverTimeout, ready); err != nil {
		return a, err
	}
	return a, remember()
}

// APIServerArgs are the flags of a kube-apiserver that a test starts by another program.
func (c *Cluster) APIServerArgs(addr string, etcdServers ...string) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	return c.apiserverArgs(host, port, etcdServers), err
}

func (c *Cluster) apiserverArgs(host, port string, etcdServers []string) []string {
	if len(etcdServers) == 0 {
		etcdServers = c.Endpoints()
	}
	return []string{
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--advertise-address=" + host,
		"--etcd-servers=" + strings.Join(etcdServers, ","),
		"--tls-cert-file=" + c.pki.serverCert,
		"--tls-private-key-file=" + c.pki.serverKey,
		"--client-ca-file=" + c.pki.caCert,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.serviceAccountKey,
		"--service-account-signing-key-file=" + c.pki.serviceAccountKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		// The Service "kubernetes" must not contain an address on loopback.
		"--endpoint-reconciler-type=none",
		// No controller creates the service accounts that this plugin requires.
		"--disable-admission-plugins=ServiceAccount",
		"--allow-privileged=true",
	}
}

// URL is the server's address.
func (a *APIServer) URL() string { return "https://" + a.addr }

// Kubeconfig is the path of a kubeconfig with all rights.
func (a *APIServer) Kubeconfig() string { return a.kubeconfig }

// Config returns a client configuration with all rights, and without client-side rate
// limits.
func (a *APIServer) Config() *rest.Config { return a.Cluster.APIConfig(a.URL()) }

// APIConfig returns the same for a kube-apiserver of the cluster at a URL, which need not
// run yet.
func (c *Cluster) APIConfig(server string) *rest.Config {
	return &rest.Config{
		Host: server,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   c.pki.caCert,
			CertFile: c.pki.adminCert,
			KeyFile:  c.pki.adminKey,
		},
		QPS: -1,
	}
}

// WriteKubeconfig writes a kubeconfig with all rights, for a kube-apiserver of the
// cluster or a proxy in front of one. It refers to the keys by path, so that it stays
// short.
func (c *Cluster) WriteKubeconfig(path, server string) error {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["local"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: c.pki.caCert}
	cfg.AuthInfos["admin"] = &clientcmdapi.AuthInfo{
		ClientCertificate: c.pki.adminCert,
		ClientKey:         c.pki.adminKey,
	}
	cfg.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "admin"}
	cfg.CurrentContext = "local"
	return clientcmd.WriteToFile(*cfg, path)
}

// Keys returns the directory of the certificates and keys, which test/local/services needs.
func (c *Cluster) Keys() string { return c.pki.dir }

// ServerCertificate returns the paths of the kube-apiservers' certificate and its key,
// for a proxy in front of one.
func (c *Cluster) ServerCertificate() (cert, key string) { return c.pki.serverCert, c.pki.serverKey }

// ready reads /readyz, which includes the RBAC bootstrap, and the namespace that the
// server creates a moment later.
func (a *APIServer) ready(ctx context.Context, client *http.Client) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		code, body, err := get(ctx, client, a.URL()+path)
		if err != nil {
			return err
		}
		if code != http.StatusOK {
			return fmt.Errorf("%s answers %d: %s", path, code, firstFailure(body))
		}
	}
	return nil
}

// firstFailure picks the check that failed from a verbose answer.
func firstFailure(body string) string {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "[-]") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(body)
}

// get makes one short request.
func get(ctx context.Context, client *http.Client, url string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("get %s: %w", url, err)
	}
	return resp.StatusCode, string(text), nil
}

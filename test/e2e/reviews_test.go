package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// reader is a client of a sidecar that serves HTTPS.
type reader struct {
	base, token string
	http        *http.Client
}

// newReader returns a client that verifies the sidecar; cert is empty: it shows no certificate.
func newReader(t *testing.T, base, authority, cert, key, token string) reader {
	t.Helper()
	pem, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return reader{base, token, &http.Client{Transport: transport}}
}

func (r reader) get(ctx context.Context, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return 0, "", err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func (r reader) want(t *testing.T, who, path string, want int) {
	t.Helper()
	code, body, err := r.get(t.Context(), path)
	if err != nil || code != want {
		t.Errorf("%s reads %s: got %d, %v, want %d\n%.300s", who, path, code, err, want, body)
	}
}

// TestReviews: a kube-apiserver decides which user may read which path of a sidecar, by the
// rights in deploy/kubeadm. Its answers outlive it, and no health check asks it.
func TestReviews(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar", "kubectl")
	b := &broken{T: t, c: c, dir: t.TempDir(), sidecars: map[string]*cluster.Sidecar{}}
	var err error
	b.api, err = c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	b.must(err)
	b.kubectl("", "apply", "-k", "../../deploy/kubeadm/cluster")
	b.kubectl("", "create", "serviceaccount", "stranger")
	serving, servingKey, err := c.NodeCertificate("serving", net.IPv4(127, 0, 0, 1))
	b.must(err)
	cert, key, err := c.ClientCertificate(kubeadm.User("cp-1"), time.Now().Add(time.Hour), kubeadm.Group)
	b.must(err)
	kubeconfig := b.kubeconfig("lockstep", b.api.URL(), b.authority(), cert, key)
	args := []string{
		"--tls-cert-file=" + serving, "--tls-private-key-file=" + servingKey, "--client-ca-file=" + b.authority(),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig, "--apiserver-readyz",
		"--authorization-always-allow-paths=/leader", "--authentication-token-webhook-cache-ttl=100ms",
		"--authorization-webhook-cache-authorized-ttl=100ms", "--authorization-webhook-cache-unauthorized-ttl=100ms",
	}
	first := b.bundle("first", one, extraObjects()...)
	sidecar, err := c.LaunchSidecar(cluster.SidecarConfig{NodeID: "cp-1", Kubeconfig: b.api.Kubeconfig(), Bundle: first, Args: args, Client: b.admin()})
	b.must(err)
	b.sidecars["cp-1"] = sidecar
	base := "https://" + sidecar.Listen()
	with := func(cert, key, token string) reader { return newReader(t, base, b.authority(), cert, key, token) }
	anonymous := with("", "", "")
	cluster.Await(t, "the sidecar to serve", func(ctx context.Context) error {
		code, body, err := anonymous.get(ctx, "/readyz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("got %d %s", code, body)
		}
		return err
	})
	tokenOf := func(namespace, name string) string {
		out, err := b.tryKubectl("", "create", "token", "-n", namespace, name)
		b.must(err)
		return strings.TrimSpace(out)
	}
	scraper, stranger := with("", "", tokenOf("kube-system", "lockstep-scraper")), with("", "", tokenOf("default", "stranger"))
	adminCert, adminKey := filepath.Join(filepath.Dir(b.authority()), "admin.crt"), filepath.Join(filepath.Dir(b.authority()), "admin.key")
	strangerCert, strangerKey, err := c.ClientCertificate("stranger", time.Now().Add(time.Hour), "system:nodes")
	b.must(err)

	anonymous.want(t, "a client without an identity", "/metrics", http.StatusUnauthorized)
	anonymous.want(t, "a client without an identity", "/leader", http.StatusOK)
	with("", "", "invented").want(t, "an invented token", "/metrics", http.StatusUnauthorized)
	stranger.want(t, "a ServiceAccount without rights", "/metrics", http.StatusForbidden)
	scraper.want(t, "the scraper", "/metrics", http.StatusOK)
	scraper.want(t, "the scraper", "/flagz", http.StatusForbidden)
	with(strangerCert, strangerKey, "").want(t, "another certificate of the CA", "/metrics", http.StatusForbidden)
	with(adminCert, adminKey, "").want(t, "system:masters", "/flagz", http.StatusOK)
	with(cert, key, "").want(t, "the node itself", "/status", http.StatusOK)

	b.kubectl("", "create", "clusterrolebinding", "stranger", "--clusterrole=lockstep-reader", "--serviceaccount=default:stranger")
	answers := func(r reader, want int) func(context.Context) error {
		return func(ctx context.Context) error {
			code, body, err := r.get(ctx, "/metrics")
			if err == nil && code != want {
				err = fmt.Errorf("got %d %.300s", code, body)
			}
			return err
		}
	}
	cluster.Await(t, "the new right to count", answers(stranger, http.StatusOK))
	b.kubectl("", "delete", "clusterrolebinding", "stranger")
	cluster.Await(t, "the right to end", answers(stranger, http.StatusForbidden))

	t.Run("Prometheus", func(t *testing.T) {
		scraped(t, *b, args, map[string]string{"cp-1": sidecar.Listen()}, tokenOf("kube-system", "lockstep-scraper"))
	})
	cluster.Await(t, "the scraper to read a sidecar that was started again", answers(scraper, http.StatusOK))
	b.must(b.api.Kill())
	cluster.Await(t, "an answer that is only remembered", func(ctx context.Context) error {
		code, body, err := scraper.get(ctx, "/metrics")
		if err == nil && (code != http.StatusOK || !strings.Contains(body, `lockstep_reviews_total{kind="token",result="stale"} `) ||
			strings.Contains(body, `lockstep_reviews_total{kind="token",result="stale"} 0`)) {
			err = fmt.Errorf("got %d %.200s", code, body)
		}
		return err
	})
	scraper.want(t, "the scraper, of what it never read", "/status", http.StatusServiceUnavailable)
	with("", "", "invented later").want(t, "an invented token", "/metrics", http.StatusServiceUnavailable)
	for _, path := range []string{"/livez", "/healthz", "/readyz/compatible"} {
		anonymous.want(t, "a client without an identity", path, http.StatusOK)
	}
	cluster.Await(t, "a health check that says so without credentials", func(ctx context.Context) error {
		code, body, err := anonymous.get(ctx, "/readyz?verbose")
		if err == nil && code != http.StatusServiceUnavailable {
			err = fmt.Errorf("got %d %s", code, body)
		}
		return err
	})
	b.must(b.sidecars["cp-1"].Stop())
}

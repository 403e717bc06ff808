package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// writeKubeconfig writes a kubeconfig for api with the credentials of user.
func writeKubeconfig(t *testing.T, path string, api *cluster.APIServer, user *clientcmdapi.AuthInfo) {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(api.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.AuthInfos = map[string]*clientcmdapi.AuthInfo{"admin": user}
	// As a program writes it that replaces a file in one step.
	if err := clientcmd.WriteToFile(*cfg, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestCredentialPluginHangs runs a credential plugin that never ends, on the node that
// leads after another one stopped. The sidecar withdraws, and its gate stays open.
func TestCredentialPluginHangs(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig, pids := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "pids")
	writeKubeconfig(t, kubeconfig, api, &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args: []string{"-c", "echo $$ >> " + pids + "; exec sleep 600"},
	}})
	t.Cleanup(func() { killAll(t, pids) })

	first := startSidecar(t, c, cluster.SidecarConfig{NodeID: "a", Kubeconfig: api.Kubeconfig()})
	cluster.Await(t, "a to be ready", first.Readyz)
	second := startSidecar(t, c, cluster.SidecarConfig{NodeID: "b", Kubeconfig: kubeconfig, Args: []string{"--leader-yield-after=3s"}})
	cluster.Await(t, "b to be ready", second.Readyz)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "b to withdraw", func(ctx context.Context) error {
		st, err := second.Status(ctx)
		if err == nil && st.Election.State != "withdrawn" {
			err = fmt.Errorf("the election state is %s", st.Election.State)
		}
		return err
	})
	statusContains(t, second)("/status to name the plugin", "doesitsexecpluginhang?")
	select {
	case <-second.Done():
		t.Fatalf("b ended by itself with %d: %s", second.ExitCode(), second.Ending())
	default:
	}
	if err := second.Readyz(t.Context()); err != nil {
		t.Errorf("b was ready and closed its gate: %v", err)
	}
	third := startSidecar(t, c, cluster.SidecarConfig{NodeID: "c", Kubeconfig: api.Kubeconfig()})
	cluster.Await(t, "c to lead", leads(third))
	if err := second.Stop(); err != nil || second.ExitCode() != 0 {
		t.Errorf("b ended with %d (%v): %s", second.ExitCode(), err, second.Ending())
	}
}

// killAll ends the processes whose IDs are in a file, one a line.
func killAll(t *testing.T, pids string) {
	t.Helper()
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Errorf("the plugin never ran: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err != nil {
			t.Error(err)
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
	}
}

// reconcileError returns why the last pass of a sidecar failed.
func reconcileError(ctx context.Context, s *cluster.Sidecar) (string, error) {
	st, err := s.Status(ctx)
	return st.Reconcile.LastError, err
}

// TestCredentialsReplaced replaces the credentials in the kubeconfig of a running
// leader: an expired certificate by a valid one, in the file itself and in one that it
// names, and a token. The sidecar uses each without a restart.
func TestCredentialsReplaced(t *testing.T) {
	t.Parallel()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expired, err := certificate(c, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, kubeconfig, api, embedded(t, expired))
	s := startSidecar(t, c, cluster.SidecarConfig{
		NodeID: "one", Kubeconfig: kubeconfig, ResyncInterval: time.Second, Args: []string{"--leader-yield-after=1h"},
	})
	fails := func(what string) {
		t.Helper()
		cluster.Await(t, what, func(ctx context.Context) error {
			text, err := reconcileError(ctx, s)
			if err == nil && !strings.Contains(text, "Unauthorized") {
				err = fmt.Errorf("the last error is %q", text)
			}
			return err
		})
	}
	works := func(what string) {
		t.Helper()
		cluster.Await(t, what, func(ctx context.Context) error {
			text, err := reconcileError(ctx, s)
			if err == nil && text != "" {
				err = errors.New(text)
			}
			return errors.Join(err, s.Readyz(ctx))
		})
	}
	fails("the expired certificate to be refused")
	valid, err := certificate(c, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, kubeconfig, api, embedded(t, valid))
	works("the valid certificate in the kubeconfig to be used")

	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("not a token"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeKubeconfig(t, kubeconfig, api, &clientcmdapi.AuthInfo{TokenFile: token})
	fails("the invalid token to be refused")
	if err := os.WriteFile(token, []byte(newToken(t, api)), 0o600); err != nil {
		t.Fatal(err)
	}
	works("the valid token in its file to be used")
}

// certificate issues a client certificate with all rights, and returns the files of
// it.
func certificate(c *cluster.Cluster, notAfter time.Time) (*clientcmdapi.AuthInfo, error) {
	cert, key, err := c.ClientCertificate("sidecar", notAfter, "system:masters")
	return &clientcmdapi.AuthInfo{ClientCertificate: cert, ClientKey: key}, err
}

// embedded returns the same user with the content of its files in place of their
// names.
func embedded(t *testing.T, user *clientcmdapi.AuthInfo) *clientcmdapi.AuthInfo {
	t.Helper()
	cert, errCert := os.ReadFile(user.ClientCertificate)
	key, errKey := os.ReadFile(user.ClientKey)
	if err := errors.Join(errCert, errKey); err != nil {
		t.Fatal(err)
	}
	return &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
}

// newToken returns a token of a ServiceAccount with all rights.
func newToken(t *testing.T, api *cluster.APIServer) string {
	t.Helper()
	client, err := rest.HTTPClientFor(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status struct{ Token string }
	}
	for _, request := range []struct{ path, body string }{
		{"/api/v1/namespaces/kube-system/serviceaccounts", `{"metadata":{"name":"sidecar"}}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"sidecar"},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"ServiceAccount","namespace":"kube-system","name":"sidecar"}]}`},
		{"/api/v1/namespaces/kube-system/serviceaccounts/sidecar/token", `{"spec":{"expirationSeconds":3600}}`},
	} {
		resp, err := client.Post(api.URL()+request.path, "application/json", strings.NewReader(request.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %v: %s: %s", request.path, err, resp.Status, body)
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
	}
	return answer.Status.Token
}

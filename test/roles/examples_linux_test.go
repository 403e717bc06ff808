package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/jail"
)

// example is a file that docs/roles.md shows: its first line is its name.
var example = regexp.MustCompile("(?s)```yaml\n# (services/[^\n]+)\n(.*?)```")

const (
	pageInside    = "/page/roles.md"
	manifestsDir  = "/etc/kubernetes/manifests"
	schedulerPort = "127.0.0.1:10259"
	nodeAddress   = "10.90.0.1"
)

// TestExamples runs a node with the services that docs/roles.md shows, one of each driver,
// unchanged: a real kube-apiserver, and a unit of a real systemd. A fake plays the kubelet: it
// listens while there is a manifest.
func TestExamples(t *testing.T) {
	assets := cluster.Assets(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !jail.Enter(t, jail.Config{
		// The program of the unit is this one: any program that listens will do.
		Units: map[string]string{"haproxy.service": "[Service]\nType=exec\nExecStart=" + program + " " + listenWord + " " + nodeAddress + ":8443\n"},
		Files: map[string]string{
			pageInside: "../../docs/roles.md", filepath.Join(assets, "sidecar"): filepath.Join(assets, "sidecar"),
			"/usr/local/bin/kube-apiserver": filepath.Join(assets, "kube-apiserver"),
		},
	}) {
		return
	}
	e := newExamples(t)
	kubelet := startKubelet(t)
	sidecar, err := e.cluster.StartSidecar(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "the gate", sidecar.Readyz)
	e.wantServices(sidecar, "kube-apiserver process Running true", "haproxy systemdUnit Running true", "kube-scheduler staticPod Running true")
	if state := unitState(t); state != "active" {
		t.Errorf("the unit is %q", state)
	}
	if got := kubelet.manifest(); !strings.HasSuffix(got, e.manifest) {
		t.Errorf("the kubelet got %q, want %q", got, e.manifest)
	}
	if err := sidecar.Stop(); err != nil {
		t.Error(err)
	}
	if state := unitState(t); state != "inactive" {
		t.Errorf("the sidecar has ended, and the unit is %q", state)
	}
	if got := kubelet.manifest(); got != "" {
		t.Errorf("the sidecar has ended, and the kubelet has %q", got)
	}
	for _, address := range []string{"127.0.0.1:6443", nodeAddress + ":8443", schedulerPort} {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			t.Errorf("the sidecar has ended, and a program listens at %s", address)
		}
	}
}

// examples is the node.
type examples struct {
	*testing.T
	cluster  *cluster.Cluster
	cfg      cluster.SidecarConfig
	manifest string
}

func newExamples(t *testing.T) *examples {
	t.Helper()
	for _, args := range []string{"link add name eth0 type bridge", "addr add " + nodeAddress + "/24 dev eth0", "link set eth0 up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	dir := t.TempDir()
	c, err := cluster.New(cluster.Config{
		Assets: cluster.Assets(t, "sidecar"), Dir: dir, LogDir: dir, WithoutEtcd: true, Addresses: []net.IP{net.ParseIP(nodeAddress)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	e := &examples{T: t, cluster: c}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := c.WriteKubeconfig(kubeconfig, "https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	e.writeFiles()
	e.cfg = cluster.SidecarConfig{
		NodeID: nodeID, Kubeconfig: kubeconfig, Listen: "127.0.0.1:8086", EtcdInArgs: true,
		Args: []string{
			"--etcd=embedded", "--services=/services", "--data-dir=" + filepath.Join(dir, "data"), "--node-address=" + nodeAddress, "--insecure-listen",
		},
	}
	return e
}

// writeFiles writes the files that the page shows, and those that it names.
func (e *examples) writeFiles() {
	e.Helper()
	page, err := os.ReadFile(pageInside)
	if err != nil {
		e.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range example.FindAllStringSubmatch(string(page), -1) {
		files["/"+m[1]] = m[2]
		if strings.HasPrefix(m[1], "services/manifests/") {
			e.manifest = m[2]
		}
	}
	// A private key contains the public one too.
	for name, from := range map[string]string{
		"ca.crt": "ca.crt", "apiserver.crt": "apiserver.crt", "apiserver.key": "apiserver.key", "sa.pub": "service-account.key", "sa.key": "service-account.key",
	} {
		text, err := os.ReadFile(filepath.Join(e.cluster.Keys(), from))
		if err != nil {
			e.Fatal(err)
		}
		files["/etc/kubernetes/pki/"+name] = string(text)
	}
	for path, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			e.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll("/var/lib/kube-apiserver", 0o700), os.MkdirAll(manifestsDir, 0o700)); err != nil {
		e.Fatal(err)
	}
}

func (e *examples) wantServices(sidecar *cluster.Sidecar, want ...string) {
	e.Helper()
	code, body, err := sidecar.Get(e.Context(), "/status")
	var shown report.Status
	if err == nil {
		err = json.Unmarshal([]byte(body), &shown)
	}
	if err != nil {
		e.Fatalf("/status: %d %s, %v", code, body, err)
	}
	var got []string
	for _, s := range shown.Services {
		got = append(got, fmt.Sprint(s.Name, " ", s.Driver, " ", s.Phase, " ", s.Ready))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		e.Errorf("got %q, want %q", got, want)
	}
}

func unitState(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("systemctl", "show", "--property=ActiveState", "--value", "haproxy.service").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// fakeKubelet runs a static pod.
type fakeKubelet struct {
	mu   sync.Mutex // mu guards text
	text string     // of the manifest; empty: there is none
}

// startKubelet starts a kubelet, whose pod listens.
func startKubelet(t *testing.T) *fakeKubelet {
	t.Helper()
	k := &fakeKubelet{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return k
}

func (k *fakeKubelet) run(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var pod *httptest.Server
	for ctx.Err() == nil {
		text, err := os.ReadFile(filepath.Join(manifestsDir, "lockstep-kube-scheduler.yaml"))
		switch {
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		case err == nil && pod == nil:
			l, err := net.Listen("tcp", schedulerPort)
			if err != nil {
				return err
			}
			pod = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(healthz)}}
			pod.StartTLS()
		case err != nil && pod != nil:
			pod.Close()
			pod = nil
		}
		k.mu.Lock()
		k.text = string(text)
		k.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	if pod != nil {
		pod.Close()
	}
	return nil
}

func healthz(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" {
		http.NotFound(w, r)
	}
}

// manifest returns the manifest that the kubelet runs; empty: none.
func (k *fakeKubelet) manifest() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text
}

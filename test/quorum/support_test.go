package quorum

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// hungAPI accepts connections, and answers none. It returns its URL.
func hungAPI(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "https://" + l.Addr().String() // the kernel accepts, and that is all
}

// supportFile is an archive of sidecar support: the content of each file, unpacked, and why others are missing.
type supportFile struct {
	content, missing map[string]string
}

// support runs sidecar support in much less time than people wait.
func (n *Node) support(t *testing.T, kubeconfig string) (out supportFile) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "support.tar.gz")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // two slots of a busy machine
	defer cancel()
	program := filepath.Join(cluster.Assets(t, "sidecar"), "sidecar")
	printed, err := exec.CommandContext(ctx, program, "support", "--output="+file, "--server="+n.URL(), "--data-dir="+n.Dir, "--kubeconfig="+kubeconfig).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out.content, out.missing = map[string]string{}, map[string]string{}
	for in := tar.NewReader(strings.NewReader(gunzip(t, packed))); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(header.Name)
		if path.Ext(name) == ".gz" {
			content = []byte(gunzip(t, content))
		}
		out.content[name] = string(content)
	}
	var list []struct{ Name, Problem string }
	if err := json.Unmarshal([]byte(out.content["contents.json"]), &list); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if !strings.Contains(string(printed), "\n"+f.Name+" ") {
			t.Errorf("%s is not in the list:\n%s", f.Name, printed)
		}
		if f.Problem != "" {
			out.missing[f.Name] = f.Problem
		}
	}
	return out
}

func gunzip(t *testing.T, packed []byte) string {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(in)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a recording goes on
		t.Fatal(err)
	}
	return string(out)
}

// wantFiles requires files with a text each, and that all others are missing for a reason.
func (f supportFile) wantFiles(t *testing.T, texts, missing map[string]string) {
	t.Helper()
	for name, text := range texts {
		if !strings.Contains(f.content[name], text) {
			t.Errorf("%s does not have %q: %.1000s %s", name, text, f.content[name], f.missing[name])
		}
	}
	for name, why := range missing {
		if !strings.Contains(f.missing[name], why) {
			t.Errorf("%s is missing because of %q, want %q", name, f.missing[name], why)
		}
	}
	for name, why := range f.missing {
		if _, expected := missing[name]; !expected {
			t.Errorf("%s is missing: %s", name, why)
		}
	}
}

// TestSupport: one command collects all that helps, also when parts hang, and the file contains no secret of this world.
func TestSupport(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	secrets := []string{"sa-token-of-the-kubeconfig", "password-in-a-message"}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
`, hungAPI(t), secrets[0])
	if err := os.WriteFile(rig.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := rig.Node("a")
	n.Start()
	n.AwaitRunning()
	for line := range strings.SplitSeq(n.command(t, "cluster", "token", "create"), "\n") {
		if token := strings.TrimSpace(line); strings.HasPrefix(token, "lockstep1.") {
			secrets = append(secrets, token, token[strings.LastIndexAny(token, ".-_")+1:])
		}
	}
	c := n.Client()
	for _, key := range n.Keys(c, "/lockstep/cluster/tokens/") { // the hash of the secret
		resp, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, string(resp.Kvs[0].Value))
	}
	n.command(t, "cordon", "a", "--message", "see http://root:"+secrets[1]+"@10.0.0.1/")
	secrets = append(secrets, secretLines(t, n.Dir)...)
	if len(secrets) < 7 {
		t.Fatalf("the world has few secrets: %d", len(secrets))
	}

	running := n.support(t, rig.Kubeconfig)
	running.wantFiles(t, map[string]string{
		"status.json": `"id": "a"`, "readyz.txt": "503", "flags.txt": "etcd=embedded", "metrics.txt": "lockstep_etcd_connected 1", "etcd-metrics.txt": "etcd_server_has_leader 1",
		"recording.gz": `"Gate":`, "history.json": "[", "history.txt": "\n", "store.json": `"/lockstep/nodes/a"`, "etcd-servers.json": `"version": "3.`, "certificates.json": pki.CACertFile,
		"version.json": `"goVersion"`, "sidecar-version.json": `"goVersion"`, "system.txt": "MemTotal",
	}, map[string]string{"kubernetes-version.json": "", "kubernetes-readyz.txt": "", "kubeadm.json": "no node of kubeadm", "last-recording.gz": "no sidecar left one in"})
	if !strings.Contains(running.content["store.json"], "/lockstep/cluster/tokens/") {
		t.Error("store.json does not name the token")
	}
	running.wantNone(t, secrets)

	KillAll(n)
	stopped := n.support(t, rig.Kubeconfig)
	missing := map[string]string{
		"kubernetes-version.json": "", "kubernetes-readyz.txt": "", "kubeadm.json": "no node of kubeadm", "last-recording.gz": "no sidecar left one in",
		"history.json": "refused", "history.txt": "", "store.json": "", "recording.gz": "refused",
	}
	for _, name := range []string{"status.json", "readyz.txt", "flags.txt", "metrics.txt", "etcd-metrics.txt", "sidecar-version.json"} {
		missing[name] = "connection refused"
	}
	stopped.wantFiles(t, map[string]string{"etcd-servers.json": `"servers": []`, "certificates.json": pki.CACertFile}, missing)
	stopped.wantNone(t, secrets)
}

// secretLines returns lines of all private keys below a directory, without the last ones: these contain a
// part of the public key.
func secretLines(t *testing.T, dir string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "pki", "*.key"))
	if err != nil || len(files) < 2 {
		t.Fatalf("got %v, %v, want the keys of a node and a CA", files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool { return line == "" || strings.HasPrefix(line, "-----") })
		out = append(out, lines[:len(lines)-1]...)
	}
	return out
}

// wantNone requires that no file contains a secret.
func (f supportFile) wantNone(t *testing.T, secrets []string) {
	t.Helper()
	for name, content := range f.content {
		for _, secret := range secrets {
			if strings.Contains(content, secret) {
				t.Errorf("%s has the secret %q", name, secret)
			}
		}
	}
}

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestEtcdUser types the commands with which docs/kubeadm.md makes a user of etcd for the
// sidecars. With its rights, and no others, they do all that they do: register, reconcile,
// lead one after another, and change records by commands. Below another prefix they may
// neither read nor write.
func TestEtcdUser(t *testing.T) {
	assets := cluster.Assets(t, "kube-apiserver", "sidecar", "etcdctl")
	var etcd *etcdtest.Server
	t.Cleanup(func() { // after the cluster, which uses it
		if etcd == nil {
			return
		}
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := cluster.New(cluster.Config{Assets: assets, Dir: t.TempDir(), LogDir: t.ArtifactDir(), WithoutEtcd: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.CloseForTest(t, c) })
	cert, key := c.ServerCertificate()
	etcd, err = etcdtest.Start(etcdtest.Config{Dir: t.TempDir(), CertFile: cert, KeyFile: key, ClientCAFile: c.Authority()})
	if err != nil {
		t.Fatal(err)
	}
	u := &etcdUser{T: t, cluster: c, etcd: etcd, assets: assets}
	u.mustShell("root", "etcdctl user add root --no-password; etcdctl user grant-role root root; etcdctl auth enable")
	api, err := c.StartAPIServer(cluster.APIServerConfig{
		Name: "one", EtcdServers: etcd.Endpoints(), Args: u.flags("root", "--etcd-cafile=%s", "--etcd-certfile=%s", "--etcd-keyfile=%s"),
	})
	if err != nil {
		t.Fatal(err)
	}
	u.api = api

	// The user does not exist yet, so etcd grants it no rights.
	first := u.start("cp-1")
	cluster.Await(t, "what is wrong to be shown", statusHas(first, "etcdctl role grant-permission ROLE readwrite --prefix /lockstep/"))
	for _, line := range typedCommands(t, "../../docs/kubeadm.md", "**An etcd with authentication.**", "etcdctl") {
		u.mustShell("root", line)
	}
	cluster.Await(t, "the first node to be ready", first.Readyz)
	cluster.Await(t, "the first to lead", leads(first))
	second := u.start("cp-2")
	cluster.Await(t, "the second node to be ready", second.Readyz)

	u.mustShell("lockstep", "sidecar cordon cp-2")
	cluster.Await(t, "the second node to be cordoned", func(ctx context.Context) error {
		switch err := second.Readyz(ctx); {
		case err == nil:
			return errors.New("it is ready")
		case !strings.Contains(err.Error(), "Cordoned"):
			return err
		}
		return nil
	})
	u.mustShell("lockstep", "sidecar uncordon cp-2")
	cluster.Await(t, "the second node to be ready again", second.Readyz)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, "the second to lead", leads(second))
	u.mustShell("lockstep", "sidecar node remove cp-1 --confirm-stopped")

	for _, line := range []string{"etcdctl get --prefix /registry/", "etcdctl put /lockstepped/x x", "etcdctl get --prefix /", "etcdctl role list", "etcdctl snapshot save /dev/null"} {
		if out, err := u.shell("lockstep", line); err == nil || !strings.Contains(out, "permission denied") {
			t.Errorf("%s: got %v, %s; want that it is denied", line, err, out)
		}
	}
	// Its rights are taken from it, and given back.
	u.mustShell("root", "etcdctl user revoke-role lockstep lockstep")
	cluster.Await(t, "the loss to be shown", statusHas(second, "permission denied: this user of etcd may not"))
	u.mustShell("root", "etcdctl user grant-role lockstep lockstep")
	cluster.Await(t, "the second node to be ready at the end", second.Readyz)
}

// typedCommands returns the commands of a program that people type after a text on a page.
func typedCommands(t *testing.T, page, after, program string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), after)
	section, _, _ = strings.Cut(section, "\n#")
	var out []string
	for line := range strings.Lines(section) {
		if command, is := strings.CutPrefix(strings.TrimSpace(line), "$ "); is && strings.HasPrefix(command, program+" ") {
			out = append(out, command)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no command of %s after %q", page, program, after)
	}
	return out
}

// etcdUser is a test with an etcd that knows its users by their certificates.
type etcdUser struct {
	*testing.T
	cluster *cluster.Cluster
	etcd    *etcdtest.Server
	api     *cluster.APIServer
	assets  string
}

// flags are those for the authority, the certificate and the key of a user.
func (u *etcdUser) flags(user, ca, crt, key string) []string {
	u.Helper()
	cert, keyFile, err := u.cluster.ClientCertificate(user, time.Now().Add(time.Hour))
	if err != nil {
		u.Fatal(err)
	}
	return []string{fmt.Sprintf(ca, u.cluster.Authority()), fmt.Sprintf(crt, cert), fmt.Sprintf(key, keyFile)}
}

// start starts the sidecar of a node, as the user lockstep.
func (u *etcdUser) start(node string) *cluster.Sidecar {
	u.Helper()
	noDelay := time.Duration(0)
	return startSidecar(u.T, u.cluster, cluster.SidecarConfig{
		NodeID: node, Kubeconfig: u.api.Kubeconfig(), EtcdServers: u.etcd.Endpoints(), ShutdownDelay: &noDelay,
		Args: u.flags("lockstep", "--etcd-cafile=%s", "--etcd-certfile=%s", "--etcd-keyfile=%s"),
	})
}

// shell types a line as a user of etcd.
func (u *etcdUser) shell(user, line string) (string, error) {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), "sh", "-ec", line)
	assets, err := filepath.Abs(u.assets)
	if err != nil {
		u.Fatal(err)
	}
	servers := strings.Join(u.etcd.Endpoints(), ",")
	cmd.Env = append(os.Environ(), "PATH="+assets+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+servers, "LOCKSTEP_ETCD_SERVERS="+servers)
	cmd.Env = append(cmd.Env, u.flags(user, "ETCDCTL_CACERT=%s", "ETCDCTL_CERT=%s", "ETCDCTL_KEY=%s")...)
	cmd.Env = append(cmd.Env, u.flags(user, "LOCKSTEP_ETCD_CAFILE=%s", "LOCKSTEP_ETCD_CERTFILE=%s", "LOCKSTEP_ETCD_KEYFILE=%s")...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (u *etcdUser) mustShell(user, line string) {
	u.Helper()
	if out, err := u.shell(user, line); err != nil {
		u.Fatalf("%s: %v: %s", line, err, out)
	}
}

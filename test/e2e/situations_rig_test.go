package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var (
	allSituations = flag.Bool("situations", false, "cause every broken situation, as `make soak` does; without it some of them")
	rewrite       = flag.Bool("rewrite", false, "write what /status shows in each situation to cmd/sidecar/testdata/situations")
)

// captured is where the values of /status are kept. The tests of the table's text
// read them, without a cluster.
const captured = "../../cmd/sidecar/testdata/situations"

// situation is a fault that a person must understand from `sidecar status`.
type situation struct {
	name   string
	always bool // also without -situations
	member bool // etcd is a process of its own
	cause  func(*broken)
}

// broken is a control plane in a situation.
type broken struct {
	*testing.T
	c        *cluster.Cluster
	api      *cluster.APIServer
	dir      string
	name     string
	sidecars map[string]*cluster.Sidecar

	printed map[string]string // commands in tables, and a node that showed each
	typed   map[string]bool
}

// TestSituations causes broken situations on real parts. In each, `sidecar status` on
// every node must say what is wrong, where, and what to do.
func TestSituations(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			if !s.always && !*allSituations {
				t.Skip("run with -situations: its text is tested in cmd/sidecar from what /status showed")
			}
			t.Parallel()
			members := 0
			if s.member {
				members = 1
			}
			c := cluster.NewWithMembersForTest(t, members, "kube-apiserver", "sidecar", "kubectl")
			api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
			if err != nil {
				t.Fatal(err)
			}
			b := &broken{
				T: t, c: c, api: api, dir: t.TempDir(), name: s.name, sidecars: map[string]*cluster.Sidecar{},
				printed: map[string]string{}, typed: map[string]bool{},
			}
			s.cause(b)
			b.typesRest()
		})
	}
}

// must ends the test at an error.
func (b *broken) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// bundle writes a bundle with some ConfigMaps, and more manifests, and returns its
// directory.
func (b *broken) bundle(name, header string, more ...string) string {
	b.Helper()
	dir := filepath.Join(b.dir, name)
	b.must(os.MkdirAll(dir, 0o700))
	b.write(filepath.Join(dir, "bundle.yaml"), "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\n"+header+"\n")
	b.write(filepath.Join(dir, "objects.yaml"), strings.Join(append([]string{
		manifest("ConfigMap", "settings", "data: {a: b}"), manifest("ConfigMap", "limits", "data: {a: b}"),
	}, more...), "---\n"))
	return dir
}

func (b *broken) write(path, text string) {
	b.Helper()
	b.must(os.WriteFile(path, []byte(text), 0o600))
}

// start starts a sidecar with a bundle. Each change applies to its configuration.
func (b *broken) start(node, bundle string, changes ...func(*cluster.SidecarConfig)) {
	b.Helper()
	none := time.Duration(0)
	cfg := cluster.SidecarConfig{
		NodeID: node, Bundle: bundle, Kubeconfig: b.api.Kubeconfig(), LeaseTTL: 3 * time.Second, ShutdownDelay: &none,
		Args: []string{"--leader-yield-after=3s"},
	}
	for _, change := range changes {
		change(&cfg)
	}
	s, err := b.c.StartSidecar(cfg)
	b.must(err)
	b.sidecars[node] = s
}

func kubeconfigOf(path string) func(*cluster.SidecarConfig) {
	return func(c *cluster.SidecarConfig) { c.Kubeconfig = path }
}

// kubeconfig writes a kubeconfig and returns its path.
func (b *broken) kubeconfig(name, server, authority, cert, key string) string {
	b.Helper()
	path := filepath.Join(b.dir, name+".kubeconfig")
	b.write(path, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: %s, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: c, context: {cluster: c, user: %s}}]
current-context: c
`, server, authority, name, cert, key, name))
	return path
}

// authority is the CA of the kube-apiservers.
func (b *broken) authority() string { return b.api.Config().CAFile }

// ready waits until the gates of nodes are open.
func (b *broken) ready(nodes ...string) {
	b.Helper()
	for _, node := range nodes {
		cluster.Await(b.T, node+" to be ready", b.sidecars[node].Readyz)
	}
}

// kubectl runs kubectl with all rights.
func (b *broken) kubectl(input string, args ...string) {
	b.Helper()
	if out, err := b.tryKubectl(input, args...); err != nil {
		b.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

func (b *broken) tryKubectl(input string, args ...string) (string, error) {
	program := filepath.Join(cluster.Assets(b.T, "kubectl"), "kubectl")
	cmd := exec.CommandContext(b.Context(), program, append([]string{"--kubeconfig", b.api.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// table is the output of `sidecar status` on a node.
func (b *broken) table(ctx context.Context, node string) (string, error) {
	program := filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar")
	out, err := exec.CommandContext(ctx, program, "status", "--server", b.sidecars[node].URL()).CombinedOutput()
	return string(out), err
}

// says waits until the table of a node contains all texts, each in one line; "|" is
// anything between. Then it keeps the node's /status.
func (b *broken) says(node string, texts ...string) {
	b.Helper()
	last := ""
	defer func() {
		if b.Failed() {
			b.Logf("%s shows\n%s", node, last)
		}
	}()
	cluster.Await(b.T, "the table of "+node, b.sidecars[node].OnChange(func(ctx context.Context) error {
		table, err := b.table(ctx, node)
		if err != nil {
			return fmt.Errorf("%w: %s", err, table)
		}
		last = table
		for _, text := range texts {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(text), `\|`, ".*")
			if !regexp.MustCompile(pattern).MatchString(table) {
				return fmt.Errorf("no line has %q", text)
			}
		}
		return nil
	}))
	b.Logf("%s shows\n%s", node, last)
	b.prints(node, last)
	b.capture(node)
}

// otherDirectory is the directory of a second cluster of a test.
var otherDirectory = regexp.MustCompile(`/tmp/TestSituations[^/]*/[0-9]+`)

// capture keeps the /status of a node, with paths of a real machine.
func (b *broken) capture(node string) {
	if !*rewrite {
		return
	}
	_, body, err := b.sidecars[node].Get(b.Context(), "/status")
	b.must(err)
	body = strings.ReplaceAll(body, b.dir, "/etc/lockstep")
	body = strings.ReplaceAll(body, filepath.Dir(b.api.Kubeconfig()), "/etc/kubernetes")
	body = otherDirectory.ReplaceAllString(body, "/etc/other")
	host, err := os.Hostname()
	b.must(err)
	body = strings.ReplaceAll(body, `"host": "`+host+`"`, `"host": "machine-1"`)
	body = strings.ReplaceAll(body, ", host "+host+",", ", host machine-1,")
	body = strings.ReplaceAll(body, "@"+host, "@machine-1") // who cordoned
	dir := filepath.Join(captured, b.name)
	b.must(os.MkdirAll(dir, 0o755))
	b.must(os.WriteFile(filepath.Join(dir, node+".json"), []byte(body), 0o644))
	b.must(os.WriteFile(filepath.Join(dir, node+".now"), []byte(time.Now().UTC().Format(time.RFC3339Nano)+"\n"), 0o644))
}

// etcd is a client of the cluster's etcd.
func (b *broken) etcd() *clientv3.Client { return etcdtest.Dial(b.T, b.c.Endpoints()...) }

func (b *broken) put(key, value string) {
	b.Helper()
	_, err := b.etcd().Put(b.Context(), "/lockstep/"+key, value)
	b.must(err)
}

// pause stops a process without ending it; it goes on when the test ends.
func (b *broken) pause(p *cluster.Process) {
	b.Helper()
	b.must(p.Signal(syscall.SIGSTOP))
	b.Cleanup(func() {
		if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			b.Error(err)
		}
	})
}

// removal is the command that removes a node's record, as it can be pasted.
func (b *broken) removal(node string) string {
	return "sidecar node remove " + node + " --confirm-stopped --etcd-servers=" + strings.Join(b.c.Endpoints(), ",")
}

// run runs a command.
func (b *broken) run(program string, args ...string) {
	b.Helper()
	if out, err := exec.CommandContext(b.Context(), program, args...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// statusHas waits for a text in /status.
func statusHas(s *cluster.Sidecar, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, body, err := s.Get(ctx, "/status")
		if err == nil && !strings.Contains(body, text) {
			err = fmt.Errorf("no %s in %s", text, body)
		}
		return err
	}
}

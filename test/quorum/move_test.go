package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// move types the commands of docs/clusters.md on three nodes.
type move struct {
	*testing.T
	rig   *Rig
	other string // the endpoint of the etcd that runs elsewhere
	nodes []*Node
	env   []string // more variables for a node's commands
	bin   string   // the directory of the programs that are typed
}

// Texts of the page that differ from machine to machine.
const (
	pageKubeconfig = "/etc/lockstep/kubeconfig"
	pageDataDir    = "/var/lib/lockstep"
	pageEtcd       = "https://10.0.0.9:2379"
	pageBundle     = "/etc/lockstep/bundle"
)

// next returns the next command of the page. It ends the test if that is not the command
// for which the test is prepared.
func (m *move) next(left *[]string, want string) string {
	m.Helper()
	if len(*left) == 0 || !strings.HasPrefix((*left)[0], want) {
		m.Fatalf("the page goes on with %q, and this test with %q", *left, want)
	}
	command := (*left)[0]
	*left = (*left)[1:]
	return command
}

// typed executes a command on a node, and returns its output.
func (m *move) typed(n *Node, command string) string {
	m.Helper()
	out, err := m.tryTyped(m.Context(), n, command)
	if err != nil {
		m.Fatalf("%s: $ %s: %v\n%s", n.ID, command, err, out)
	}
	m.Logf("%s $ %s\n%s", n.ID, command, out)
	return out
}

func (m *move) tryTyped(ctx context.Context, n *Node, command string) (string, error) {
	args := m.args(n, command)
	cmd := exec.CommandContext(ctx, filepath.Join(m.bin, args[0]), args[1:]...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+n.URL())
	if !strings.Contains(command, "--etcd-servers=") {
		for _, variable := range m.env {
			cmd.Env = append(cmd.Env, strings.ReplaceAll(variable, pageDataDir, n.Dir))
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *move) args(n *Node, command string) []string {
	return strings.Fields(strings.NewReplacer(
		pageKubeconfig, m.rig.Kubeconfig, pageDataDir, n.Dir, pageEtcd, m.other, pageBundle, "builtin").Replace(command))
}

// run starts a sidecar with the flags of a command of the page.
func (m *move) run(n *Node, command string) {
	m.Helper()
	flags := m.args(n, command)[2:]
	if strings.Contains(command, "--etcd=embedded") {
		n.Start(flags...)
		return
	}
	var err error
	n.Sidecar, err = m.rig.cluster.LaunchSidecar(cluster.SidecarConfig{
		NodeID: n.ID, Listen: n.Address + ":8086", EtcdInArgs: true, Args: append([]string{"--insecure-listen"}, flags...),
	})
	if err != nil {
		m.Fatal(err)
	}
}

// settled types a command until it says that the last upgrade is complete.
func (m *move) settled(status string) {
	m.Helper()
	cluster.Await(m.T, "the next upgrade to be allowed", func(ctx context.Context) error {
		out, err := m.tryTyped(ctx, m.nodes[0], status)
		if err == nil && !strings.Contains(out, "the next upgrade may start") {
			err = errors.New(out)
		}
		return err
	})
}

func (m *move) stopAll() {
	m.Helper()
	for _, n := range m.nodes {
		if err := n.Stop(); err != nil {
			m.Fatal(err)
		}
	}
}

// holds requires that no node leads more than to wait, and that all gates are closed.
func (m *move) holds(nodes ...*Node) {
	m.Helper()
	for _, n := range nodes {
		cluster.Await(m.T, n.ID+" to see that its store is not that of the objects", func(ctx context.Context) error {
			_, body, err := n.Get(ctx, "/status")
			if err == nil && (!strings.Contains(body, "StatusMissing") || !strings.Contains(body, "the objects belong to ")) {
				err = errors.New(body)
			}
			return err
		})
		if n.Readyz(m.Context()) == nil {
			m.Errorf("%s: its gate is open", n.ID)
		}
	}
}

func (m *move) allReady() {
	m.Helper()
	for _, n := range m.nodes {
		cluster.Await(m.T, n.ID+" to be ready", n.Readyz)
	}
}

// registered requires that a list of nodes contains each of them, alive.
func (m *move) registered(list string) {
	m.Helper()
	for _, n := range m.nodes {
		if !regexp.MustCompile(`(?m)^` + n.ID + ` .* yes `).MatchString(list) {
			m.Errorf("%s is not listed as alive:\n%s", n.ID, list)
		}
	}
}

// TestMove moves three nodes from an etcd that runs elsewhere to one of their own, and
// back, with the commands of docs/clusters.md#move. Between the stores no gate is open
// and nothing is written, and the rest of the old store opens no gate.
func TestMove(t *testing.T) {
	t.Parallel()
	other := etcdtest.New(t) // it stops after the sidecars that use it
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	m := &move{T: t, rig: &Rig{t: t, cluster: c, Kubeconfig: api.Kubeconfig()}, other: other.Endpoints()[0], bin: t.TempDir()}
	for name, program := range map[string]string{"sidecar": c.SidecarBinary(), "rm": "/bin/rm"} {
		if err := os.Symlink(program, filepath.Join(m.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		m.nodes = append(m.nodes, m.rig.Node(id))
	}
	external := "sidecar run --etcd-servers=" + pageEtcd + " --kubeconfig=" + pageKubeconfig
	for _, n := range m.nodes {
		m.run(n, external)
	}
	m.allReady()
	objects := written(t, api)
	before := objects()

	m.toEmbedded(external, func() {
		if now := objects(); now != before {
			t.Errorf("an object was written between the stores: %s, before %s", now, before)
		}
	})
	m.replaceCA()
	m.toExternal()
}

// written returns a function that returns the versions of some objects of the set.
func written(t *testing.T, api *cluster.APIServer) func() string {
	t.Helper()
	client, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	classes := client.Resource(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"})
	return func() string {
		t.Helper()
		list, err := classes.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, o := range list.Items {
			fmt.Fprintf(&out, "%s %s %s, ", o.GetName(), o.GetUID(), o.GetResourceVersion())
		}
		return out.String()
	}
}

func (m *move) toEmbedded(oldFlags string, unchanged func()) {
	a := m.nodes[0]
	page := commands(m.T, "move-to-embedded")
	m.env = []string{"LOCKSTEP_ETCD_SERVERS=" + m.other}
	m.settled(m.next(&page, "sidecar status"))
	if out, err := m.tryTyped(m.Context(), a, "sidecar store delete --yes"); err == nil || !strings.Contains(out, "in use by the sidecars of these nodes: a, b, c") {
		m.Errorf("a store is deleted while its sidecars are alive: %v\n%s", err, out)
	}
	m.stopAll()
	if out := m.typed(a, m.next(&page, "sidecar node list")); strings.Count(out, " no ") != len(m.nodes) {
		m.Errorf("not all are listed as stopped:\n%s", out)
	}
	m.typed(a, m.next(&page, "sidecar store delete --yes"))
	if out := m.typed(a, m.next(&page, "sidecar node list")); strings.Count(out, "\n") != 1 {
		m.Errorf("the old store has nodes:\n%s", out)
	}

	m.create(page, unchanged)

	// A node with the old flags, which was off meanwhile, makes a new store, and holds.
	late := m.rig.Node("d")
	m.run(late, oldFlags)
	m.holds(late)
	if err := late.Stop(); err != nil {
		m.Fatal(err)
	}
	m.allReady()
}

// create types the rest of a page that ends with a new cluster.
func (m *move) create(page []string, unchanged func()) {
	a, b, c := m.nodes[0], m.nodes[1], m.nodes[2]
	m.env = []string{"LOCKSTEP_DATA_DIR=" + pageDataDir}
	m.run(a, m.next(&page, "sidecar run --etcd=embedded "))
	a.AwaitRunning()
	create := m.next(&page, "sidecar cluster token create --node ID")
	for _, n := range []*Node{b, c} {
		printed := printedRun(m.T, m.typed(a, strings.Replace(create, "ID", n.ID, 1)))
		m.run(n, "sidecar run "+strings.Join(printed, " ")+" --kubeconfig="+pageKubeconfig)
	}
	awaitVoters(a, b, c)
	if out := m.typed(a, m.next(&page, "sidecar cluster members")); strings.Count(out, "voter") != len(m.nodes) {
		m.Errorf("not all are voters:\n%s", out)
	}
	m.holds(m.nodes...)
	unchanged()
	m.typed(a, m.next(&page, "sidecar store adopt"))
	m.typed(a, m.next(&page, "sidecar wait-ready"))
	m.allReady()
	m.registered(m.typed(a, m.next(&page, "sidecar node list")))
	if len(page) > 0 {
		m.Errorf("not typed: %q", page)
	}
}

// replaceCA moves the nodes to a new cluster of their own.
func (m *move) replaceCA() {
	before := m.nodes[0].Marker().CAHash
	external, embedded := commands(m.T, "move-to-external"), commands(m.T, "move-to-embedded")
	m.settled(m.next(&external, "sidecar status"))
	m.stopAll()
	remove := m.next(&external, "rm -r ")
	for _, n := range m.nodes {
		m.typed(n, remove)
	}
	for !strings.HasPrefix(embedded[0], "sidecar run ") {
		embedded = embedded[1:]
	}
	m.create(embedded, func() {})
	if after := m.nodes[0].Marker().CAHash; after == before {
		m.Errorf("the CA is still %s", after)
	}
}

func (m *move) toExternal() {
	a := m.nodes[0]
	page := commands(m.T, "move-to-external")
	m.settled(m.next(&page, "sidecar status"))
	m.stopAll()
	remove := m.next(&page, "rm -r ")
	for _, n := range m.nodes {
		m.typed(n, remove)
	}
	m.env = nil
	show := m.next(&page, "sidecar store show")
	empty := regexp.MustCompile(`(?m)^/lockstep/ +- +no +-$`)
	if out := m.typed(a, show); empty.MatchString(out) {
		m.Errorf("the late node has left no store:\n%s", out)
	}
	m.typed(a, m.next(&page, "sidecar store delete --yes"))
	if out := m.typed(a, show); !empty.MatchString(out) {
		m.Errorf("the store is not empty:\n%s", out)
	}
	run := m.next(&page, "sidecar run --etcd-servers=")
	for _, n := range m.nodes {
		m.run(n, run)
	}
	m.holds(m.nodes...)
	m.typed(a, m.next(&page, "sidecar store adopt"))
	m.typed(a, m.next(&page, "sidecar wait-ready"))
	m.allReady()
	m.registered(m.typed(a, m.next(&page, "sidecar node list")))
	if len(page) > 0 {
		m.Errorf("not typed: %q", page)
	}
}

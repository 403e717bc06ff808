package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/prometheus"
)

// planes are two control planes that one Prometheus finds: of the nodes cp-1 to cp-3, and, at another prefix of
// the same etcd, of b-1 and b-2. The objects belong to the first one.
type planes struct {
	*broken
	prom   *prometheus.Prometheus
	client *tls.Config
	args   []string // of every sidecar
	listen map[string]string
	store  string // of the first control plane
}

const otherPrefix = "/other/"

// scraped lets a Prometheus find both control planes. All sidecars have args; listen has the address of cp-1, which runs.
func scraped(t *testing.T, b broken, args []string, listen map[string]string, token string) {
	b.T = t
	p := &planes{broken: &b, args: args, listen: listen, prom: prometheus.Start(t, prometheus.Client{Authority: b.authority(), Token: token}), client: b.admin()}
	p.prom.Fires("", "NotScraped")
	var err error
	for _, node := range []string{"cp-2", "cp-3", "b-1", "b-2", "c-1"} {
		p.listen[node], err = etcdtest.FreeAddr()
		b.must(err)
	}
	p.appears("cp-1")
	p.whole(filepath.Join(b.dir, "first"), b.bundle("next", upgraded, extraObjects()...))
	cert, key, err := b.c.ClientCertificate("soon", time.Now().Add(time.Hour), "system:masters")
	b.must(err)
	p.other(b.kubeconfig("soon", b.api.URL(), b.authority(), cert, key))
	p.objects()

	// The kube-apiserver hangs, which decides who may read metrics: its answers are remembered.
	b.must(b.api.Signal(syscall.SIGSTOP))
	defer func() { b.must(b.api.Signal(syscall.SIGCONT)) }()
	p.prom.Fires(p.store, "NodeDoesNotServe", "NoNodeServes", "NodeWithdrawn")
	p.prom.Await("sum(up)", "", map[string]string{"": "5"})
	p.prom.WantAll(p.store, p.prom.Store("b-2"))
}

// admin is how a member of system:masters reaches a sidecar.
func (b *broken) admin() *tls.Config {
	b.Helper()
	authority, admin := x509.NewCertPool(), b.api.Config()
	pem, err := os.ReadFile(b.authority())
	b.must(err)
	authority.AppendCertsFromPEM(pem)
	own, err := tls.LoadX509KeyPair(admin.CertFile, admin.KeyFile)
	b.must(err)
	return &tls.Config{RootCAs: authority, Certificates: []tls.Certificate{own}}
}

const upgraded = "release: 1.1.0\nminApiserverRelease: 1.1.0"

// extraObjects are so many that not all of them may be dropped at once.
func extraObjects() []string {
	var out []string
	for i := range 12 {
		out = append(out, manifest("ConfigMap", fmt.Sprintf("extra-%02d", i), ""))
	}
	return out
}

// appears adds a node to what the Prometheus discovers, with the label of the named port of its pod.
func (p *planes) appears(node string) {
	p.Helper()
	p.prom.Discover(map[string]string{p.listen[node]: "lockstep", node + ".invalid:6443": "https"})
}

// begin starts a sidecar that serves HTTPS at the node's address.
func (p *planes) begin(node, bundle string, changes ...func(*cluster.SidecarConfig)) {
	p.Helper()
	p.start(node, bundle, append([]func(*cluster.SidecarConfig){func(c *cluster.SidecarConfig) {
		c.Listen, c.Client, c.Args = p.listen[node], p.client, append(c.Args, p.args...)
	}}, changes...)...)
}

// whole is about the first control plane: it is upgraded, and loses a node for a moment. With their time, no alerts fire.
func (p *planes) whole(bundle, next string) {
	p.Helper()
	for _, node := range []string{"cp-2", "cp-3"} {
		p.begin(node, bundle)
		p.appears(node)
	}
	p.ready("cp-1", "cp-2", "cp-3")
	p.store = p.prom.Store("cp-1")
	p.prom.Await(fmt.Sprintf("sum(lockstep_readyz * on (job, instance) group_left (store) lockstep_node_info{store=%q})", p.store), "", map[string]string{"": "3"})
	for i, node := range []string{"cp-3", "cp-1", "cp-2"} {
		p.must(p.sidecars[node].Kill())
		if i == 0 {
			p.prom.Fires(p.store, "NodeNotScraped")
		}
		p.begin(node, next)
		if i == 0 {
			p.prom.Fires(p.store, "UpgradeStuck")
			p.prom.Await("lockstep:releases:count", "store", map[string]string{p.store: "2"})
		}
		p.ready(node)
	}
	p.prom.Await("lockstep:releases:count", "store", map[string]string{p.store: "1"})
	p.prom.Await(fmt.Sprintf(`count by (version) (lockstep_status_info{state="DONE"} * on (job, instance) group_left (store) lockstep_node_info{store=%q,release="1.1.0"})`, p.store),
		"version", map[string]string{"1.1.0": "3"})
	p.prom.Draws(p.store)
	p.prom.Silent(p.store, 2*time.Second)
	p.prom.Only(p.store, "NotScraped")
}

const optional = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: NAME}\nrole: kubernetes_controller\nrequired: false\n"

// other is about the second control plane: it never has a status, since the objects are not its own, and much
// else is wrong with it.
func (p *planes) other(kubeconfig string) {
	p.Helper()
	way := etcdtest.NewProxy(p.T, strings.TrimPrefix(p.c.Endpoints()[0], "http://"))
	services := func(node, file, name, text string) {
		p.must(os.MkdirAll(filepath.Join(p.dir, node+"-services"), 0o700))
		p.write(filepath.Join(p.dir, node+"-services", file), strings.Replace(optional, "NAME", name, 1)+text)
	}
	services("b-1", "crashes.yaml", "crashes", "process: {command: [/bin/false]}\n")
	services("b-2", "unready.yaml", "unready", "process: {command: [/bin/sleep, \"9000000\"]}\nreadiness: {tcpSocket: {address: \"127.0.0.1:1\"}}\n")
	first, second := p.bundle("b-1", one), p.bundle("b-2", one, manifest("ConfigMap", "more", ""))
	for node, bundle := range map[string]string{"b-1": first, "b-2": second} {
		p.begin(node, bundle, kubeconfigOf(kubeconfig), func(c *cluster.SidecarConfig) {
			c.EtcdPrefix = otherPrefix
			if node == "b-1" {
				c.EtcdServers = []string{"http://" + way.Addr()}
			}
			c.Args = append(c.Args, "--override-file="+filepath.Join(p.dir, node+".override"),
				"--services="+filepath.Join(p.dir, node+"-services"), "--data-dir="+filepath.Join(p.dir, node+"-data"))
		})
		p.appears(node)
	}
	store := p.prom.Store("b-1")
	p.prom.Fires(store, "NoNodeServes", "GateClosed", "NoCompletePass", "BundlesDiffer", "ServicesDiffer", "ServiceNotReady", "CertificateExpires",
		"OutOfServiceFast", "OutOfServiceSlow")
	p.flaps("b-1", store)
	p.copied(store, kubeconfig)
	p.breaks(store, first)

	until := time.Now().Add(30 * time.Minute)
	text, err := fleet.EncodeRollback(protocol.Rollback{To: protocol.Release{Minor: 9}, By: "test", Since: time.Now(), Until: until})
	p.must(err)
	p.putOther("kubernetes/reconciler/rollback", string(text))
	p.prom.Fires(store, "RollbackEnds", "NoLeader")
	way.Cut(etcdtest.Reset)
	p.prom.Fires(store, "EtcdUnreachable", "ServiceRestarts")
	way.Restore()
	p.prom.Await(fmt.Sprintf(`ALERTS{alertname="%s%sNoLeader",alertstate="firing"} * 0`, prometheus.Soon, prometheus.Prefix), "store", map[string]string{store: "0"})
	p.prom.Silent(p.store, 2*time.Second)
	p.prom.Only(p.store, "NotScraped")
}

// breaks writes what is wrong into etcd and files.
func (p *planes) breaks(store, bundle string) {
	p.Helper()
	p.putOther("nodes/garbage", "x")
	p.putOther("nodes/ghost", string(fleet.Encode(protocol.Node{
		ID: "ghost", Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: protocol.Release{Major: 1}},
	})))
	ghost, err := proto.Marshal(&lockstepv1.Presence{ApiserverVersion: "v1.0.0", Written: timestamppb.New(time.Now().Add(time.Hour))})
	p.must(err)
	p.putOther("presence/ghost", string(ghost))
	p.write(filepath.Join(bundle, "objects.yaml"), "[")
	p.write(filepath.Join(p.dir, "b-1-services", "broken.yaml"), "[")
	p.write(filepath.Join(p.dir, "b-2.override"), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+"\n")
	// A full disk does the same to the file with the node's roles. A change of these is kept there.
	file := filepath.Join(p.dir, "b-1-data", "roles.json")
	p.must(errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o700)))
	p.run(filepath.Join(cluster.Assets(p.T, "sidecar"), "sidecar"), "node", "set-roles", "b-1", "--add", protocol.RoleWorker,
		"--etcd-prefix="+otherPrefix, "--etcd-servers="+p.c.Endpoints()[0])
	p.prom.Fires(store, "WorkerFails", "RecordCorrupt", "NodeWithoutGate", "NodeNotScraped", "BundleRejected", "ServicesRejected", "GateOverridden", "APIServersDiffer", "ClocksDiffer")
}

// flaps lets statuses open and close the gate of a node, each for less than the time between two scrapes.
func (p *planes) flaps(node, store string) {
	p.Helper()
	for range 6 {
		for _, s := range []struct {
			major int64
			code  int
		}{{0, 200}, {9, 503}} {
			text, err := status.Encode(protocol.Status{
				State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}, MinCompatible: protocol.Release{Major: s.major},
			}, time.Now())
			p.must(err)
			p.putOther("kubernetes/reconciler/status", string(text))
			cluster.Await(p.T, "the gate to follow the status", func(ctx context.Context) error {
				code, body, err := p.sidecars[node].Get(ctx, "/readyz")
				if err == nil && code != s.code {
					err = errors.New(body)
				}
				return err
			})
		}
	}
	p.prom.Fires(store, "GateFlaps", "GateClosedByStatus")
}

func (p *planes) putOther(key, value string) {
	p.Helper()
	_, err := p.etcd().Put(p.Context(), otherPrefix+key, value)
	p.must(err)
}

// objects is about objects of the first control plane: one is invalid, too many are dropped, another client
// changes one again and again.
func (p *planes) objects() {
	p.Helper()
	const may = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: plat-bad, annotations: {lockstep.dev/required: \"false\"}}\n" +
		"rules:\n- {apiGroups: [\"\"], resources: [pods], verbs: []}\n"
	p.bundle("next", upgraded, may)
	p.prom.Fires(p.store, "ObjectsFail", "RemovalsHeld")
	leader := map[string]*cluster.Sidecar{}
	cluster.Await(p.T, "a leader", func(ctx context.Context) error {
		for _, node := range []string{"cp-1", "cp-2", "cp-3"} {
			if s, err := p.sidecars[node].Status(ctx); err == nil && s.Election.State == "leading" {
				leader["one"] = p.sidecars[node]
				return nil
			}
		}
		return errors.New("no node leads")
	})
	for i := range 6 {
		p.kubectl("", "patch", "configmap", "settings", "--field-manager=other-operator", "--type=merge", fmt.Sprintf(`-p={"data":{"a":"theirs %d"}}`, i))
		cluster.Await(p.T, "the repair", statusHas(leader["one"], fmt.Sprintf(`"repairs": %d,`, i+1)))
	}
	p.prom.Fires(p.store, "OtherWriter")
	p.publishes("cp-3")
}

// publishes lets the sidecar of one node write the Service kubernetes, and no other.
func (p *planes) publishes(node string) {
	p.Helper()
	p.must(p.sidecars[node].Kill())
	p.begin(node, filepath.Join(p.dir, "next"), func(c *cluster.SidecarConfig) {
		c.Args = append(c.Args, "--kubernetes-service", "--apiserver-address="+ofDocumentation+"2")
	})
	p.prom.Fires(p.store, "NotPublishing")
	p.prom.Await("sum(up)", "", map[string]string{"": "5"}) // each remembers that the scraper may read metrics
}

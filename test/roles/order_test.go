package roles_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var (
	rounds = flag.Int("roles.rounds", 100, "rounds of TestOrder")
	seed   = flag.Uint64("roles.seed", 0, "seed of TestOrder; 0: another one in each run")
)

const nodeID = "a"

var keys = keyspace.Under("/lockstep/")

// order is a node whose sidecar and service are stopped, killed and upgraded, and what
// is observed from outside.
type order struct {
	*testing.T
	cluster *cluster.Cluster
	raw     *clientv3.Client
	random  *rand.Rand
	dir     string
	set     settings
	listen  string
	release int

	sidecar *cluster.Sidecar
	life    life
	judged  int // lines of the log
}

// life is what was known before a sidecar started.
type life struct {
	record    int64    // revision of the node's record
	leaders   []string // keys of sidecars that were killed
	instances int      // that the log has
	opened    bool     // the gate was seen open
}

// TestOrder starts, upgrades and stops a node a hundred times, with kills of the sidecar
// and of the service in between, and holds it to the order (docs/protocol.md#services).
// The service itself observes its sidecar at the moments that count.
func TestOrder(t *testing.T) {
	o := newOrder(t)
	o.followPresence()
	kinds := map[string]int{}
	for range *rounds {
		o.start()
		kind := o.round()
		kinds[kind]++
		o.judge(kind)
		if t.Failed() {
			t.Fatalf("after %v, the last one %s", kinds, kind)
		}
	}
	t.Log(kinds)
}

func newOrder(t *testing.T) *order {
	t.Helper()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-roles.seed=%d", *seed)
	c := cluster.NewForTest(t, "sidecar")
	o := &order{T: t, cluster: c, raw: c.Etcd.Client(t), random: rand.New(rand.NewPCG(*seed, 0)), dir: t.TempDir()}
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	o.listen = addresses[0]
	o.set = settings{
		Log: filepath.Join(o.dir, "log"), Listen: addresses[1], Etcd: c.Endpoints()[0], Node: nodeID, Readyz: "http://" + o.listen + "/readyz",
	}
	for _, dir := range []string{"services", "bundle"} {
		if err := os.Mkdir(filepath.Join(o.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeService(t, filepath.Join(o.dir, "services"), o.set)
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, namespace: default}\n"
	if err := os.WriteFile(filepath.Join(o.dir, "bundle", "object.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	// The node may serve with these objects. It leads, and its API does not answer.
	value, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.raw.Put(t.Context(), keys.Status(), string(value)); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteKubeconfig(o.kubeconfig(), "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *order) kubeconfig() string { return filepath.Join(o.dir, "kubeconfig") }

// start starts the sidecar, of the next release every other time.
func (o *order) start() {
	o.Helper()
	if o.release == 0 || o.random.IntN(2) == 0 {
		o.release++
		text := fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.%d.0\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.0.0\n", o.release)
		if err := os.WriteFile(filepath.Join(o.dir, "bundle", "bundle.yaml"), []byte(text), 0o600); err != nil {
			o.Fatal(err)
		}
	}
	o.life = life{record: o.record(), leaders: o.leaders(), instances: len(o.log(started))}
	delay := 50 * time.Millisecond
	var err error
	o.sidecar, err = o.cluster.LaunchSidecar(cluster.SidecarConfig{
		NodeID: nodeID, Kubeconfig: o.kubeconfig(), Bundle: filepath.Join(o.dir, "bundle"), Listen: o.listen, LeaseTTL: 3 * time.Second, ShutdownDelay: &delay,
		Args: []string{
			"--services=" + filepath.Join(o.dir, "services"), "--data-dir=" + filepath.Join(o.dir, "data"), "--node-address=127.0.0.1",
			"--leader-yield-after=1h",
		},
	})
	if err != nil {
		o.Fatal(err)
	}
}

// round lets the node live for a while, and ends it. It returns how.
func (o *order) round() string {
	o.Helper()
	switch o.random.IntN(6) {
	case 0:
		o.pause(300 * time.Millisecond)
		o.kill(o.sidecar.PID())
		<-o.sidecar.Done()
		return "sidecar killed while it starts"
	case 1:
		o.awaitOpen()
		o.kill(o.sidecar.PID())
		<-o.sidecar.Done()
		return "sidecar killed while it serves"
	case 2:
		o.awaitOpen()
		o.killService()
		o.awaitInstances(o.life.instances + 2)
		o.stop()
		return "service killed while it serves"
	case 3:
		o.awaitOpen()
		o.signalStop()
		o.pause(100 * time.Millisecond)
		o.killService()
		<-o.sidecar.Done()
		return "service killed while the sidecar stops"
	case 4:
		o.pause(300 * time.Millisecond)
		o.stop()
		return "stopped while it starts"
	}
	o.awaitOpen()
	o.stop()
	return "stopped"
}

func (o *order) pause(most time.Duration) {
	backoff.Sleep(o.Context(), time.Duration(o.random.Int64N(int64(most))))
}

func (o *order) signalStop() {
	o.Helper()
	if err := o.sidecar.Signal(syscall.SIGTERM); err != nil {
		o.Fatal(err)
	}
}

func (o *order) stop() {
	o.Helper()
	o.signalStop()
	select {
	case <-o.sidecar.Done():
	case <-time.After(20 * time.Second):
		o.Fatal("the sidecar does not stop")
	}
}

func (o *order) kill(pid int) {
	o.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		o.Fatal(err)
	}
}

// killService kills the newest instance, if it lives.
func (o *order) killService() {
	o.Helper()
	if all := o.log(started); lives(all[len(all)-1].PID) {
		o.kill(all[len(all)-1].PID)
	}
}

// awaitOpen waits until the gate is open. By then the record is written.
func (o *order) awaitOpen() {
	o.Helper()
	cluster.Await(o, "the gate", func(ctx context.Context) error {
		select {
		case <-o.sidecar.Done():
			o.Fatal("the sidecar ended by itself")
		default:
		}
		return o.sidecar.Readyz(ctx)
	})
	o.life.opened = true
	if now := o.record(); now <= o.life.record {
		o.Errorf("the gate is open, and the record is still that of revision %d", now)
	}
}

func (o *order) awaitInstances(n int) {
	o.Helper()
	cluster.Await(o, "the service to be started again", func(context.Context) error {
		if got := len(o.log(started)); got < n {
			return fmt.Errorf("%d instances, want %d", got, n)
		}
		return nil
	})
}

// log returns the lines of one kind.
func (o *order) log(what string) []line {
	o.Helper()
	all, err := readLog(o.set.Log)
	if err != nil {
		o.Fatal(err)
	}
	return slices.DeleteFunc(all, func(l line) bool { return l.What != what })
}

func (o *order) record() int64 {
	o.Helper()
	resp, err := o.raw.Get(o.Context(), keys.Node(nodeID))
	if err != nil {
		o.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].ModRevision
}

func (o *order) leaders() []string {
	o.Helper()
	resp, err := o.raw.Get(o.Context(), keys.Leaders(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		o.Fatal(err)
	}
	var out []string
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Key))
	}
	return out
}

// judge holds what the service has observed since the last round to the order.
func (o *order) judge(kind string) {
	o.Helper()
	all, err := readLog(o.set.Log)
	if err != nil {
		o.Fatal(err)
	}
	first := 0 // the PID of the first instance of this life
	for _, l := range all[o.judged:] {
		if first == 0 {
			first = l.PID
		}
		if len(l.Beside) > 0 {
			o.Errorf("%s: %d %s while %v ran", kind, l.PID, l.What, l.Beside)
		}
		switch l.What {
		case isReady:
			if l.PID == first && l.Record != o.life.record {
				o.Errorf("%s: the record was written before the service was ready", kind)
			}
			if l.PID == first && l.Open {
				o.Errorf("%s: the gate was open before the service was ready", kind)
			}
		case stopping:
			o.judgeStop(kind, l)
		}
	}
	o.judged = len(all)
}

// judgeStop judges what the service observed when it was asked to stop.
func (o *order) judgeStop(kind string, l line) {
	o.Helper()
	if l.Open {
		o.Errorf("%s: the gate was open when the service was asked to stop", kind)
	}
	for _, key := range l.Leaders {
		if !slices.Contains(o.life.leaders, key) {
			o.Errorf("%s: the node still had the leader's key %s when the service was asked to stop", kind, key)
		}
	}
	if o.life.opened && !l.Presence {
		o.Errorf("%s: the presence was deleted before the service was asked to stop", kind)
	}
}

// followPresence watches the presence: when a sidecar deletes it, its service has ended.
func (o *order) followPresence() {
	ctx, cancel := context.WithCancel(o.Context())
	var watching sync.WaitGroup
	o.Cleanup(func() { cancel(); watching.Wait() })
	watch := o.raw.Watch(ctx, keys.Presence(nodeID))
	watching.Go(func() {
		for resp := range watch {
			for _, event := range resp.Events {
				if event.Type != clientv3.EventTypeDelete {
					continue
				}
				// The lease of a sidecar that was killed may end while another one lives.
				all, err := readLog(o.set.Log)
				if err != nil {
					o.Error(err)
				}
				for _, l := range all {
					if l.What == stopping && lives(l.PID) {
						o.Errorf("the presence was deleted while the service %d stopped", l.PID)
					}
				}
			}
		}
	})
}

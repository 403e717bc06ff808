package roles_test

import (
	"cmp"
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

var seed = flag.Uint64("roles.seed", 0, "seed of TestOrder; 0: another one in each run")

// seeded returns the seed of all tests of this run.
var seeded = sync.OnceValue(func() uint64 { return cmp.Or(*seed, rand.Uint64()) })

const nodeID = "a"

var keys = keyspace.Under("/lockstep/")

// order is a node whose sidecar and service are stopped, killed and upgraded, with the
// observations from outside.
type order struct {
	*testing.T
	cluster *cluster.Cluster
	raw     *clientv3.Client
	random  *rand.Rand
	dir     string
	set     settings
	listen  string
	args    []string // of the sidecar
	env     []string
	reach   string // flag with which commands reach etcd, also while the node is off
	// install writes the files that run the service, for a release.
	install func(s settings)
	// powerOff: the member of etcd is killed with its sidecar, every other time.
	powerOff bool
	release  int

	// asked are instances that a sidecar perhaps asked to stop before it was killed. The next
	// one may end, and delete its presence, before it decides about them.
	asked sync.Map

	sidecar *cluster.Sidecar
	life    life
	judged  int // lines of the log
}

// life holds the facts known before a sidecar started.
type life struct {
	record   int64    // revision of the node's record
	leaders  []string // keys that killed sidecars hold or may get
	former   []int    // instances that live; when the gate is open: only the ones that the sidecar replaced
	serves   bool     // one of those is ready
	opened   bool     // the gate was seen open
	upgraded bool     // the release is another one than before
}

// TestOrder starts, upgrades and stops a node a hundred times, with kills of the sidecar
// and of the service in between, and holds it to the order (docs/protocol-nodes.md#services).
// The service itself observes its sidecar at the moments that count.
func TestOrder(t *testing.T) {
	t.Parallel()
	for i, way := range []struct {
		name    string
		rounds  int
		prepare func(o *order)
	}{
		{"process", 40, (*order).withProcess},
		{"static pod", 20, (*order).withPod},
		{"systemd unit", 20, (*order).withUnit},
		{"process on the embedded etcd", 20, (*order).withEmbedded},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			o := newOrder(t, uint64(i), way.prepare)
			o.followPresence()
			kinds := map[string]int{}
			for range way.rounds {
				o.start()
				kind := o.round()
				kinds[kind]++
				o.judge(kind)
				if t.Failed() {
					t.Fatalf("after %v, the last one %s", kinds, kind)
				}
			}
			t.Log(kinds)
		})
	}
}

func newOrder(t *testing.T, way uint64, prepare func(o *order)) *order {
	t.Helper()
	t.Logf("-roles.seed=%d", seeded())
	o := &order{T: t, random: rand.New(rand.NewPCG(seeded(), way)), dir: t.TempDir()}
	var addresses [2]string
	for i := range addresses {
		var err error
		if addresses[i], err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	o.listen = addresses[0]
	o.set = settings{Log: filepath.Join(o.dir, "log"), Listen: addresses[1]}
	for _, dir := range []string{"services", "bundle", "pods"} {
		if err := os.Mkdir(filepath.Join(o.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	prepare(o)
	o.set.Readyz = "http://" + o.listen + "/readyz"
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, namespace: default}\n"
	o.write("bundle/object.yaml", object)
	// The node may serve with these objects. It leads, and its API does not answer.
	value, err := status.Encode(protocol.Status{State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.raw.Put(t.Context(), keys.Status(), string(value)); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *order) write(file, text string) {
	o.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, file), []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
}

// start starts the sidecar, of the next release every other time.
func (o *order) start() {
	o.Helper()
	o.startSidecar(o.release == 0 || o.random.IntN(2) == 0)
}

// startSidecar starts the sidecar, of the next release if it is upgraded.
func (o *order) startSidecar(upgraded bool) {
	o.Helper()
	o.life = life{record: o.record(), leaders: o.leaders()}
	for _, l := range o.log("") {
		switch {
		case !lives(l.PID):
		case l.What == started:
			o.life.former = append(o.life.former, l.PID)
		case l.What == isReady:
			o.life.serves = true
		}
	}
	if o.life.upgraded = upgraded; upgraded {
		o.release++
		const text = "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.%d.0\nminReconcilerRelease: 1.0.0\nminApiserverRelease: 1.0.0\n"
		o.write("bundle/bundle.yaml", fmt.Sprintf(text, o.release))
		o.set.Release = o.release
		o.install(o.set)
	}
	// Without a delay, nothing but the order itself is between the gate and the services.
	delay := time.Duration(o.random.IntN(2)) * 50 * time.Millisecond
	var err error
	o.sidecar, err = o.cluster.LaunchSidecar(cluster.SidecarConfig{
		NodeID: nodeID, Kubeconfig: o.kubeconfig(), Bundle: filepath.Join(o.dir, "bundle"), Listen: o.listen, LeaseTTL: 3 * time.Second, ShutdownDelay: &delay,
		EtcdInArgs: true, Env: o.env,
		Args: append([]string{
			"--services=" + filepath.Join(o.dir, "services"), "--data-dir=" + filepath.Join(o.dir, "data"), "--leader-yield-after=1h",
		}, o.args...),
	})
	if err != nil {
		o.Fatal(err)
	}
}

func (o *order) kubeconfig() string { return filepath.Join(o.dir, "kubeconfig") }

// round lets the node live for a while, and ends it. It returns how.
func (o *order) round() string {
	o.Helper()
	switch o.random.IntN(8) {
	case 0:
		o.pause(300 * time.Millisecond)
		o.killSidecar()
		o.mayBeAsked()
		return "sidecar killed while it starts"
	case 1:
		o.awaitOpen()
		o.killSidecar()
		return "sidecar killed while it serves"
	case 2:
		o.awaitOpen()
		before := len(o.log(started))
		o.killService()
		o.awaitInstances(before + 1)
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
	switch o.random.IntN(3) {
	case 0:
		o.setRole("--remove")
		o.awaitEnd()
		o.setRole("--add")
		o.awaitOpen()
		o.stop()
		return "role taken and given back"
	case 1:
		o.setRole("--remove")
		o.pause(200 * time.Millisecond)
		o.killSidecar()
		o.mayBeAsked()
		o.setRole("--add")
		return "sidecar killed while it loses the role"
	}
	o.stop()
	return "stopped"
}

// setRole gives the controller role, or takes it, as people do.
func (o *order) setRole(how string) {
	o.Helper()
	o.execute("node", "set-roles", nodeID, how, protocol.RoleController, "--force", o.reach)
}

// awaitEnd waits until no instance lives.
func (o *order) awaitEnd() {
	o.Helper()
	cluster.Await(o, "the service to end", func(context.Context) error {
		for _, l := range o.log(started) {
			if lives(l.PID) {
				return fmt.Errorf("the process %d runs", l.PID)
			}
		}
		return nil
	})
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
	case <-time.After(time.Minute):
		o.Fatal("the sidecar does not stop")
	}
}

func (o *order) kill(pid int) {
	o.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		o.Fatal(err)
	}
}

// killSidecar ends the sidecar as a crash does, or everything on the node as a power failure
// does.
func (o *order) killSidecar() {
	o.Helper()
	all := []int{o.sidecar.PID()}
	if o.powerOff && o.random.IntN(2) == 0 {
		children, err := o.sidecar.Children()
		if err != nil {
			o.Fatal(err)
		}
		all = append(all, children...)
	}
	for _, pid := range all {
		o.kill(pid)
	}
	<-o.sidecar.Done()
}

// mayBeAsked keeps the instances that live: a sidecar that was just killed perhaps asked them
// to stop.
func (o *order) mayBeAsked() {
	o.Helper()
	for _, l := range o.log(started) {
		if lives(l.PID) {
			o.asked.Store(l.PID, true)
		}
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
		if err := o.sidecar.Readyz(ctx); err != nil {
			return err
		}
		return o.present(ctx)
	})
	if !o.life.opened {
		// The instances that live now are this sidecar's.
		o.life.former = slices.DeleteFunc(o.life.former, lives)
	}
	o.life.opened = true
	if now := o.record(); now <= o.life.record {
		o.Errorf("the gate is open, and the record is still that of revision %d", now)
	}
}

// present fails while etcd has no presence of the node. On a loaded machine its lease may end, and the gate stays open.
func (o *order) present(ctx context.Context) error {
	resp, err := o.raw.Get(ctx, keys.Presence(nodeID), clientv3.WithCountOnly())
	if err == nil && resp.Count == 0 {
		err = errors.New("the presence is missing")
	}
	return err
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

// log returns the lines of one kind; empty: of all.
func (o *order) log(what string) []line {
	o.Helper()
	all, err := readLog(o.set.Log)
	if err != nil {
		o.Fatal(err)
	}
	return slices.DeleteFunc(all, func(l line) bool { return what != "" && l.What != what })
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

// leaders returns the keys that the leases of etcd can hold: a request that a killed
// sidecar sent may land later.
func (o *order) leaders() []string {
	o.Helper()
	resp, err := o.raw.Leases(o.Context())
	if err != nil {
		o.Fatal(err)
	}
	var out []string
	for _, lease := range resp.Leases {
		out = append(out, keys.Leader(int64(lease.ID)))
	}
	return out
}

// judge holds the service's observations since the last round to the order.
func (o *order) judge(kind string) {
	o.Helper()
	all := o.log("")
	serves := o.life.serves // an instance is ready
	for i, l := range all[o.judged:] {
		if len(l.Beside) > 0 {
			o.Errorf("%s: %d %s while %v ran", kind, l.PID, l.What, l.Beside)
		}
		switch l.What {
		case isReady:
			// Later ones are of instances that were started again.
			if !serves {
				o.judgeReady(kind, l)
			}
			serves = true
		case stopping:
			former := slices.Contains(o.life.former, l.PID)
			if former {
				serves = false
			}
			// One that is replaced stops before the sidecar knows which one it is.
			replaced := former && slices.ContainsFunc(all[o.judged+i:], func(l line) bool { return l.What == started })
			o.judgeStop(kind, l, replaced)
		}
	}
	o.judged = len(all)
}

func (o *order) judgeReady(kind string, l line) {
	o.Helper()
	if l.Record != o.life.record {
		o.Errorf("%s: the record was written before the service was ready", kind)
	}
	if l.Open {
		o.Errorf("%s: the gate was open before the service was ready", kind)
	}
}

// judgeStop judges the service's observations when it was asked to stop.
func (o *order) judgeStop(kind string, l line, replaced bool) {
	o.Helper()
	if l.Open {
		o.Errorf("%s: the gate was open when the service was asked to stop", kind)
	}
	// Of the same release, it is not a service that must stop: it is started again.
	again := replaced && !o.life.upgraded
	for _, key := range l.Leaders {
		if !again && !slices.Contains(o.life.leaders, key) {
			o.Errorf("%s: the node still had the leader's key %s when the service was asked to stop", kind, key)
		}
	}
	if o.life.opened && !replaced && !l.Presence {
		o.Errorf("%s: the presence was deleted before the service was asked to stop", kind)
	}
	if replaced && l.Record != o.life.record {
		o.Errorf("%s: the record was written before the former service was asked to stop", kind)
	}
}

// followPresence watches the presence: a sidecar deletes it only after its service ended.
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
					if _, asked := o.asked.Load(l.PID); l.What == stopping && lives(l.PID) && !asked {
						o.Errorf("the presence was deleted while the service %d stopped", l.PID)
					}
				}
			}
		}
	})
}

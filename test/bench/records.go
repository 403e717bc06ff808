package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	records       = 5000
	recordsInTxn  = 50 // with a presence each; etcd accepts 128 operations
	recordChanges = 500
	changePause   = 10 * time.Millisecond
)

// benchRecords changes records of a large fleet, one after another, and reports the CPU
// time that a sidecar needs for each. The sidecar does not lead: a newer node is alive.
func benchRecords(ctx context.Context, b *bench) error {
	var ops []clientv3.Op
	present := string(lockstepv1.Marshal(&lockstepv1.Presence{Ready: true, Reason: string(protocol.Ready)}))
	for i := range records {
		ops = append(ops, putRecord(i, 0), clientv3.OpPut(keysOf("records").Presence(recordID(i)), present))
		if len(ops) == 2*recordsInTxn {
			if _, err := b.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
				return err
			}
			ops = nil
		}
	}
	dir, err := b.writeBundle(bundleSpec{name: "records", release: "1.0.0", objects: few("records", "one")})
	if err != nil {
		return err
	}
	kubeconfig, err := b.unusedKubeconfig()
	if err != nil {
		return err
	}
	s, err := b.cluster.StartSidecar(cluster.SidecarConfig{
		NodeID: "records", Kubeconfig: kubeconfig, Bundle: dir, EtcdPrefix: prefixOf("records"),
	})
	if err != nil {
		return err
	}
	n := trio{{Sidecar: s}}
	pause(ctx, 3*time.Second) // until the start is over
	idle, over, err := usedFor(ctx, n, func(int) error { return nil })
	if err != nil {
		return err
	}
	busy, took, err := usedFor(ctx, n, func(i int) error {
		_, err := b.etcd.Txn(ctx).Then(putRecord(i, 1)).Commit()
		return err
	})
	if err != nil {
		return err
	}
	more := busy - idle*took.Seconds()/over.Seconds()
	each := time.Duration(more / recordChanges * float64(time.Second))
	b.report.fact("5,000 records of live nodes: CPU time of a sidecar for each that is changed",
		each.Round(10*time.Microsecond).String(), "< 1 ms", each < time.Millisecond)
	return s.Stop()
}

// usedFor returns the CPU seconds that sidecars use while do is called, again and
// again, and how long that takes.
func usedFor(ctx context.Context, nodes trio, do func(i int) error) (seconds float64, took time.Duration, err error) {
	before, err := used(ctx, nodes)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for i := range recordChanges {
		if err := do(i); err != nil {
			return 0, 0, err
		}
		pause(ctx, changePause)
	}
	pause(ctx, time.Second)
	after, err := used(ctx, nodes)
	return after.cpu - before.cpu, time.Since(began), err
}

func recordID(i int) protocol.NodeID { return protocol.NodeID(fmt.Sprintf("node-%04d", i)) }

// putRecord writes a controller's record. The first node is of a newer release than the
// sidecar, and the others of an older one.
func putRecord(i, address int) clientv3.Op {
	release := protocol.Release{Minor: 9}
	if i == 0 {
		release.Major = 99
	}
	return clientv3.OpPut(keysOf("records").Node(recordID(i)), string(fleet.Encode(protocol.Node{
		ID: recordID(i), Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: release},
		Address: fmt.Sprintf("http://10.0.0.%d:8086", address), Digest: "sha256:0b4b309ad131b516b8291768141df097799d95a51b4a600ba944dc6edd22d336",
		BootID: "01234567-89ab-cdef-0123-456789abcdef",
	})))
}

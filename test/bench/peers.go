package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// benchPeers measures the peers at the same time, since they mostly wait.
func (b *bench) benchPeers(ctx context.Context, api *cluster.APIServer) error {
	group, ctx := errgroup.WithContext(ctx)
	p := peerBench{bench: b, kubeconfig: api.Kubeconfig()}
	group.Go(func() error { return p.originDone(ctx) })
	group.Go(func() error { return p.originNewer(ctx) })
	for i := range b.opts.peers {
		group.Go(func() error { return p.originKill(ctx, i) })
		group.Go(func() error { return p.originBlocker(ctx, i) })
		group.Go(func() error { return p.clientGo(ctx, i) })
	}
	return group.Wait()
}

// peerBench measures the peers with one kube-apiserver.
type peerBench struct {
	*bench
	kubeconfig string
}

func (b peerBench) origin(prefix, id string) peerFlags {
	return peerFlags{
		id: prefix + "-" + id, prefix: "/peer-" + prefix + "/", objects: "peer-" + prefix,
		kubeconfig: b.kubeconfig, release: "1.0.0",
	}
}

// start starts a peer and waits until it says until.
func (b peerBench) start(ctx context.Context, name string, f peerFlags, until string) (*peer, error) {
	p, err := b.startPeer(name, f)
	if err != nil {
		return nil, err
	}
	_, err = p.await(ctx, until)
	return p, err
}

// originDone stops a leader with 1,000 objects, and waits until the next one leads
// and finishes its pass.
func (b peerBench) originDone(ctx context.Context) error {
	f := b.origin("done", "0")
	f.thousand = true
	leader, err := b.start(ctx, "origin", f, saysDone)
	if err != nil {
		return err
	}
	for i := range b.opts.peers {
		f.id = fmt.Sprintf("done-%d", i+1)
		next, err := b.start(ctx, "origin", f, saysFollows)
		if err != nil {
			return err
		}
		begin, err := leader.signal(syscall.SIGTERM)
		if err != nil {
			return err
		}
		led, err := next.await(ctx, saysLeads)
		if err != nil {
			return err
		}
		done, err := next.await(ctx, saysDone)
		if err != nil {
			return err
		}
		b.report.peer(rowStop, peerOrigin, led.Sub(begin))
		b.report.peer(rowDone, peerOrigin, done.Sub(begin))
		if err := leader.end(syscall.SIGTERM); err != nil {
			return err
		}
		leader = next
	}
	return leader.end(syscall.SIGTERM)
}

// originKill kills a leader, for each i at another time between two keep-alives,
// which are a third of 60 s apart.
func (b peerBench) originKill(ctx context.Context, i int) error {
	prefix := fmt.Sprintf("kill-%d", i)
	leader, err := b.start(ctx, "origin", b.origin(prefix, "a"), saysDone)
	if err != nil {
		return err
	}
	next, err := b.start(ctx, "origin", b.origin(prefix, "b"), saysFollows)
	if err != nil {
		return err
	}
	pause(ctx, spread(i, b.opts.peers, 20*time.Second))
	begin, err := leader.signal(syscall.SIGKILL)
	if err != nil {
		return err
	}
	led, err := next.await(ctx, saysLeads)
	if err != nil {
		return err
	}
	b.report.peer(rowKill, peerOrigin, led.Sub(begin))
	return errors.Join(leader.end(syscall.SIGKILL), next.end(syscall.SIGTERM))
}

// originNewer starts and stops a node of a newer release. It removes the record of
// the stopped node: otherwise no older node would ever lead again.
func (b peerBench) originNewer(ctx context.Context) error {
	older, err := b.start(ctx, "origin", b.origin("newer", "a"), saysLeads)
	if err != nil {
		return err
	}
	for i := range b.opts.peers {
		f := b.origin("newer", fmt.Sprintf("new-%d", i))
		f.release = "1.1.0"
		record := f.prefix + "nodes/" + f.id
		alive := b.firstPut(ctx, record)
		newest, err := b.startPeer("origin", f)
		if err != nil {
			return err
		}
		begin, err := await(ctx, "the record of the newest", alive)
		if err != nil {
			return err
		}
		led, err := newest.await(ctx, saysLeads)
		if err != nil {
			return err
		}
		b.report.peer(rowNewer, peerOrigin, led.Sub(begin))
		if _, err := older.await(ctx, saysFollows); err != nil { // after its restart
			return err
		}
		if begin, err = newest.signal(syscall.SIGTERM); err != nil {
			return err
		}
		if _, err := b.etcd.Delete(ctx, record); err != nil {
			return err
		}
		if led, err = older.await(ctx, saysLeads); err != nil {
			return err
		}
		b.report.peer(rowNewest, peerOrigin, led.Sub(begin))
		if err := newest.end(syscall.SIGTERM); err != nil {
			return err
		}
	}
	return older.end(syscall.SIGTERM)
}

// originBlocker makes a leader wait for a node of the previous release, and removes
// that node.
func (b peerBench) originBlocker(ctx context.Context, i int) error {
	f := b.origin(fmt.Sprintf("blocker-%d", i), "a")
	f.release, f.minAPIServer = "1.1.0", "1.1.0"
	old := f.prefix + "nodes/old"
	for key, value := range map[string]string{f.prefix + "status": "DONE 1.0.0 0.0.0", old: "1.0.0"} {
		if _, err := b.etcd.Put(ctx, key, value); err != nil {
			return err
		}
	}
	leader, err := b.start(ctx, "origin", f, saysBlocked)
	if err != nil {
		return err
	}
	firstObject := b.firstPut(ctx, registryOf("idle")+"/configmaps/default/"+f.objects+"-")
	begin := time.Now()
	if _, err := b.etcd.Delete(ctx, old); err != nil {
		return err
	}
	at, err := await(ctx, "a peer's first object", firstObject)
	if err != nil {
		return err
	}
	b.report.peer(rowBlocker, peerOrigin, at.Sub(begin))
	return leader.end(syscall.SIGTERM)
}

// clientGo stops and kills leaders of client-go's election, in turns.
func (b peerBench) clientGo(ctx context.Context, i int) error {
	f := peerFlags{kubeconfig: b.kubeconfig, objects: fmt.Sprintf("client-go-%d", i)}
	next := func(id, until string) (*peer, error) {
		f.id = fmt.Sprintf("client-go-%d-%s", i, id)
		return b.start(ctx, "client-go", f, until)
	}
	leader, err := next("a", saysLeads)
	if err != nil {
		return err
	}
	for round, c := range []struct {
		row string
		sig syscall.Signal
	}{{rowStop, syscall.SIGTERM}, {rowKill, syscall.SIGKILL}, {rowStop, syscall.SIGTERM}, {rowKill, syscall.SIGKILL}} {
		follower, err := next(fmt.Sprint(round), saysFollows)
		if err != nil {
			return err
		}
		pause(ctx, spread(i, b.opts.peers, 2*time.Second)) // one retry period
		begin, err := leader.signal(c.sig)
		if err != nil {
			return err
		}
		led, err := follower.await(ctx, saysLeads)
		if err != nil {
			return err
		}
		b.report.peer(c.row, peerClientGo, led.Sub(begin))
		if err := leader.end(c.sig); err != nil {
			return err
		}
		leader = follower
	}
	return leader.end(syscall.SIGTERM)
}

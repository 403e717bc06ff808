package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
)

// origin is the same algorithm on top of Session and Election of etcd's client
// library, with its defaults: a session of 60 s, a wait of 5 s before it
// reconciles, a pass every 30 s, and a restart with a back-off when another release
// is the newest. It is as small as it can be without being slower for it.
type origin struct {
	flags    peerFlags
	release  protocol.Release
	needs    protocol.Release // A
	etcd     *clientv3.Client
	api      dynamic.Interface
	releases *event.Value[originFleet]
}

// originFleet is the summary of all records, with this node's release.
type originFleet struct {
	min, max protocol.Release
	revision int64 // 0: not read yet
}

const (
	originWait    = 5 * time.Second
	originTick    = 30 * time.Second
	originBackoff = 500 * time.Millisecond // the first one, plus or minus a half
	originLabel   = "bench-origin"
)

var errReleaseChanged = errors.New("another release is the newest, restarting")

func runOrigin(ctx context.Context, f peerFlags) error {
	o := &origin{flags: f, releases: event.New(originFleet{})}
	var err error
	if o.release, err = semver.ParseRelease(f.release); err != nil {
		return err
	}
	if o.needs, err = semver.ParseRelease(f.minAPIServer); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	if o.api, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	if o.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{f.etcd}, Logger: zap.NewNop()}); err != nil {
		return err
	}
	if _, err := o.etcd.Put(ctx, o.nodes()+f.id, f.release); err != nil {
		return err
	}
	var watcher sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	watcher.Go(func() { o.watchNodes(watching) })
	defer watcher.Wait()
	defer stop()
	for ctx.Err() == nil {
		err := o.watchReleases(ctx)
		if ctx.Err() == nil && !errors.Is(err, errReleaseChanged) {
			return err
		}
		pause(ctx, originBackoff/2+rand.N(originBackoff))
	}
	return ctx.Err()
}

func (o *origin) nodes() string  { return o.flags.prefix + "nodes/" }
func (o *origin) status() string { return o.flags.prefix + "status" }

// watchNodes keeps o.releases up to date.
func (o *origin) watchNodes(ctx context.Context) {
	resp, err := o.etcd.Get(ctx, o.nodes(), clientv3.WithPrefix())
	if err != nil {
		return // it was stopped: etcd runs longer than all peers
	}
	held := map[string]protocol.Release{}
	for _, kv := range resp.Kvs {
		held[string(kv.Key)], _ = semver.ParseRelease(string(kv.Value)) // the benchmark writes valid releases only
	}
	o.publish(held, resp.Header.Revision)
	for change := range o.etcd.Watch(ctx, o.nodes(), clientv3.WithPrefix(), clientv3.WithRev(resp.Header.Revision+1)) {
		for _, ev := range change.Events {
			delete(held, string(ev.Kv.Key))
			if ev.Type == clientv3.EventTypePut {
				held[string(ev.Kv.Key)], _ = semver.ParseRelease(string(ev.Kv.Value)) // as above
			}
		}
		o.publish(held, change.Header.Revision)
	}
}

func (o *origin) publish(held map[string]protocol.Release, revision int64) {
	sum := originFleet{min: o.release, max: o.release, revision: revision}
	for _, r := range held {
		if r.Less(sum.min) {
			sum.min = r
		}
		if sum.max.Less(r) {
			sum.max = r
		}
	}
	o.releases.Set(sum)
}

// newest waits until the records were read, and reports whether this release is the
// newest.
func (o *origin) newest(ctx context.Context) (is bool, changed <-chan struct{}) {
	for {
		sum, changed := o.releases.Load()
		if sum.revision != 0 || ctx.Err() != nil {
			return !o.release.Less(sum.max), changed
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// watchReleases takes part in the election while this release is the newest, and
// returns when that changes.
func (o *origin) watchReleases(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began, changed := o.newest(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel(nil)
	watcher.Go(func() {
		for is := began; ctx.Err() == nil; is, changed = o.newest(ctx) {
			if is != began {
				cancel(errReleaseChanged)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	if !began {
		say(saysFollows)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := o.elect(ctx); context.Cause(ctx) == nil {
		return err
	}
	return context.Cause(ctx)
}

// elect campaigns and leads, with a session of the default 60 s.
func (o *origin) elect(ctx context.Context) error {
	session, err := concurrency.NewSession(o.etcd)
	if err != nil {
		return err
	}
	defer func() {
		session.Orphan()
		// ctx has usually ended.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = o.etcd.Revoke(clean, session.Lease()) // or it expires
	}()
	election := concurrency.NewElection(session, o.flags.prefix+"leader")
	say(saysFollows)
	if err := election.Campaign(ctx, o.flags.id); err != nil {
		return err
	}
	say(saysLeads)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the session, which elect ends
		<-session.Done()
		cancel()
	}()
	return o.lead(ctx, clientv3.Compare(clientv3.CreateRevision(election.Key()), "=", election.Rev()))
}

// lead restricts the status if needed, waits, and then reconciles again and again.
func (o *origin) lead(ctx context.Context, leads clientv3.Cmp) error {
	resp, err := o.etcd.Get(ctx, o.status())
	if err != nil {
		return err
	}
	done := fmt.Sprintf("DONE %s %s", o.release, o.needs)
	if len(resp.Kvs) == 1 && string(resp.Kvs[0].Value) != done {
		if err := o.prepare(ctx, leads, string(resp.Kvs[0].Value)); err != nil {
			return err
		}
	}
	pause(ctx, originWait)
	for ctx.Err() == nil {
		if err := o.reconcile(ctx); err != nil {
			return err
		}
		if err := o.write(ctx, done, leads); err != nil {
			return err
		}
		say(saysDone)
		pause(ctx, originTick)
	}
	return ctx.Err()
}

// prepare sets the status to WORKING. Before that it waits for nodes that are not
// compatible with the new objects.
func (o *origin) prepare(ctx context.Context, leads clientv3.Cmp, status string) error {
	fields := strings.Fields(status)
	version, err := semver.ParseRelease(fields[1])
	if err != nil {
		return err
	}
	minimum, err := semver.ParseRelease(fields[2])
	if err != nil {
		return err
	}
	if !o.release.Less(version) && !minimum.Less(o.needs) {
		return o.write(ctx, fmt.Sprintf("WORKING %s %s", version, minimum), leads)
	}
	if o.release.Less(version) {
		version = o.release
	}
	if minimum.Less(o.needs) {
		minimum = o.needs
	}
	for {
		sum, changed := o.releases.Load()
		if !sum.min.Less(o.needs) {
			unchanged := clientv3.Compare(clientv3.ModRevision(o.nodes()).WithPrefix(), "<", sum.revision+1)
			return o.write(ctx, fmt.Sprintf("WORKING %s %s", version, minimum), leads, unchanged)
		}
		say(saysBlocked)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (o *origin) write(ctx context.Context, status string, conds ...clientv3.Cmp) error {
	resp, err := o.etcd.Txn(ctx).If(conds...).Then(clientv3.OpPut(o.status(), status)).Commit()
	if err == nil && !resp.Succeeded {
		err = errors.New("status not written: the guard did not hold")
	}
	return err
}

var originResources = map[string]schema.GroupVersionResource{
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"PriorityClass":      {Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
	"StorageClass":       {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	"ConfigMap":          {Version: "v1", Resource: "configmaps"},
}

// reconcile lists each kind and creates the missing objects, one after another.
func (o *origin) reconcile(ctx context.Context) error {
	texts := few(o.flags.objects, "one")
	if o.flags.thousand {
		texts = thousand(o.flags.objects)
	}
	present := map[string]bool{}
	for _, gvr := range originResources {
		list, err := o.api.Resource(gvr).List(ctx, metav1.ListOptions{LabelSelector: originLabel + "=" + o.flags.objects})
		if err != nil {
			return err
		}
		for _, obj := range list.Items {
			present[obj.GetKind()+obj.GetName()] = true
		}
	}
	for _, text := range texts {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			return err
		}
		if present[obj.GetKind()+obj.GetName()] {
			continue
		}
		obj.SetLabels(map[string]string{originLabel: o.flags.objects})
		_, err := o.api.Resource(originResources[obj.GetKind()]).Namespace(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

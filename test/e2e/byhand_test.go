package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// The content epochs that people write by hand: each bound.
var editedEpochs = []int64{
	math.MinInt64, -1, 0, 1, protocol.MaxEpochGap, protocol.MaxEpochGap + 100, protocol.MaxContentEpoch, protocol.MaxContentEpoch + 1, math.MaxInt64,
}

// TestStatusByHand writes values that people type by mistake into the status in etcd. The
// other nodes show them, the leader replaces them, both gates are open, and the next
// upgrade works.
func TestStatusByHand(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	type edit struct {
		name  string
		value func(t *testing.T, now []byte) string
		shown string // on a node that does not lead
	}
	text := func(s string) func(*testing.T, []byte) string { return func(*testing.T, []byte) string { return s } }
	edits := []edit{
		{"empty", text(""), `"problem":"unknownstate0"`},
		{"garbage", text("\xff"), `"problem":"thevalueisnotastatus(length1)"`},
		{"text", text(`{"state":"DONE"}`), `"problem":"thevalueisnotastatus(length16)"`},
		{"another set's", foreignStatus, `"version":"9.0.0"`},
	}
	for _, n := range editedEpochs {
		shown := fmt.Sprintf(`"contentEpoch":%d,`, n)
		if n != 0 && !protocol.IsContentEpoch(n) {
			shown = fmt.Sprintf("thecontentepoch%dinthestatusisnotbetween1and%d", n, int64(protocol.MaxContentEpoch))
		}
		edits = append(edits, edit{fmt.Sprint(n), func(t *testing.T, now []byte) string { return withEpochs(t, now, n) }, shown})
	}
	for _, e := range edits {
		p.run(e.name, func(t *testing.T) {
			var written int64
			p.freezeLeader(func() {
				now, err := p.client.Get(t.Context(), statusKey)
				if err != nil || len(now.Kvs) != 1 {
					t.Fatalf("got %v, %v, want the status", now, err)
				}
				put, err := p.client.Put(t.Context(), statusKey, e.value(t, now.Kvs[0].Value))
				if err != nil {
					t.Fatal(err)
				}
				written = put.Header.Revision
				statusContains(t, p.nodes[p.follower()])("the other node to show it", e.shown)
			})
			p.awaitInPlace(written)
			p.upgrade()
		})
	}
}

// withEpochs is a status with another content epoch, and with other epochs of leaders.
func withEpochs(t *testing.T, value []byte, n int64) string {
	t.Helper()
	var m lockstepv1.ReconcilerStatus
	if err := proto.Unmarshal(value, &m); err != nil {
		t.Fatal(err)
	}
	m.ContentEpoch, m.Epoch, m.DrainedEpoch = n, n, n
	out, err := proto.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// foreignStatus is the status of another control plane.
func foreignStatus(t *testing.T, _ []byte) string {
	t.Helper()
	value, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: protocol.Release{Major: 9}}, Leader: "elsewhere", Epoch: 77, DrainedEpoch: 77,
		Digest: "sha256:" + strings.Repeat("0", 64), ContentRelease: protocol.Release{Major: 9}, ContentEpoch: 500,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

const foreignEntry = `{"release":"9.0.0","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","digest":"sha256:00","contentEpoch":500}`

// TestMarkByHand does the same with the ConfigMap kube-system/lockstep. The leader names it
// in its log.
func TestMarkByHand(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	type edit struct {
		name string
		edit func(data map[string]any)
	}
	set := func(key, value string) func(map[string]any) { return func(data map[string]any) { data[key] = value } }
	edits := []edit{
		{"empty", func(data map[string]any) { clear(data) }},
		{"an empty mark", set("mark.json", "")},
		{"an empty object", set("mark.json", "{}")},
		{"garbage", func(data map[string]any) { data["mark.json"], data["inventory"] = "\x00{", "!" }},
		{"another set's", func(data map[string]any) {
			data["mark.json"], data["inventory"] = `{"firstDone":true,"leaderEpoch":77,"entries":[`+foreignEntry+`]}`, "AAAAAAAAAAAAAAAA"
		}},
	}
	for _, n := range editedEpochs {
		edits = append(edits, edit{fmt.Sprint(n), func(data map[string]any) {
			was, _ := data["mark.json"].(string)
			before, _, _ := strings.Cut(was, `"contentEpoch":`)
			data["mark.json"] = fmt.Sprintf(`%s"contentEpoch":%d}]}`, before, n)
		}})
	}
	for _, e := range edits {
		p.run(e.name, func(t *testing.T) {
			leader := p.nodes[p.leader]
			before := p.logLines(leader, "kube-system/lockstep")
			p.editMark(func(obj *unstructured.Unstructured) {
				data, _, _ := unstructured.NestedMap(obj.Object, "data")
				e.edit(data)
				obj.Object["data"] = data
			})
			cluster.Await(t, "the leader to name it in its log", func(context.Context) error {
				if n := p.logLines(leader, "kube-system/lockstep"); n == before {
					return fmt.Errorf("%d lines", n)
				}
				return nil
			})
			p.awaitInPlace(0)
			p.upgrade()
		})
	}
	p.run("deleted", func(t *testing.T) {
		if err := p.parent().Delete(t.Context(), "lockstep", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.awaitInPlace(0)
		p.upgrade()
	})
	// It is the store that the objects belong to. So no leader decides by itself whether
	// the annotation is right.
	p.run("another set's store", func(t *testing.T) {
		const annotation = "lockstep.dev/store"
		p.editMark(func(obj *unstructured.Unstructured) {
			annotations := obj.GetAnnotations()
			annotations[annotation] = strings.Repeat("0123", 8)
			obj.SetAnnotations(annotations)
		})
		statusContains(t, p.nodes[p.leader])("the leader to hold", `"rule":"HoldForStore"`)
		remove := []byte(`{"metadata":{"annotations":{"` + annotation + `":null}}}`)
		if _, err := p.parent().Patch(t.Context(), "lockstep", types.MergePatchType, remove, metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
			t.Fatal(err)
		}
		statusContains(t, p.nodes[p.leader])("the leader to go on", `"rule":"KeepTarget"`)
		p.awaitInPlace(0)
		p.upgrade()
	})
}

// pair is two nodes that are upgraded in turn: one leads, and the other is of the release
// before.
type pair struct {
	*testing.T
	c       *cluster.Cluster
	api     *cluster.APIServer
	client  *clientv3.Client
	kube    dynamic.Interface
	dir     string
	nodes   map[string]*cluster.Sidecar
	leader  string
	release int // the minor of the leader's
}

func newPair(t *testing.T) *pair {
	t.Helper()
	c := cluster.NewForTest(t, "kube-apiserver", "sidecar")
	api, err := c.StartAPIServer(cluster.APIServerConfig{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	kube, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{
		T: t, c: c, api: api, client: c.Etcd.Client(t), kube: kube, dir: t.TempDir(), nodes: map[string]*cluster.Sidecar{}, leader: "b",
	}
	p.upgrade()
	p.upgrade()
	return p
}

// run runs a subtest. The next ones depend on it.
func (p *pair) run(name string, f func(*testing.T)) {
	outer := p.T
	defer func() { p.T = outer }()
	if !outer.Run(name, func(t *testing.T) { p.T = t; f(t) }) {
		outer.FailNow()
	}
}

func (p *pair) follower() string { return map[string]string{"a": "b", "b": "a"}[p.leader] }

// upgrade starts the node that does not lead with the next release, and waits until that
// is in place.
func (p *pair) upgrade() {
	p.Helper()
	node := p.follower()
	if s := p.nodes[node]; s != nil {
		if err := s.Stop(); err != nil {
			p.Fatal(err)
		}
	}
	p.release++
	none := time.Duration(0)
	s, err := p.c.StartSidecar(cluster.SidecarConfig{
		NodeID: node, Kubeconfig: p.api.Kubeconfig(), Bundle: p.bundle(), ShutdownDelay: &none,
		LeaseTTL: time.Minute, // so that no other node leads while the leader's process is stopped
	})
	if err != nil {
		p.Fatal(err)
	}
	p.nodes[node], p.leader = s, node
	p.awaitInPlace(0)
	statusContains(p.T, s)("the objects to be watched", `"watching":true`)
}

// bundle writes the bundle of the release.
func (p *pair) bundle() string {
	p.Helper()
	f := bundleDir{t: p.T, dir: filepath.Join(p.dir, strconv.Itoa(p.release))}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		p.Fatal(err)
	}
	f.write(map[string]string{
		"bundle.yaml": fmt.Sprintf("apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: pair}\nrelease: 1.%d.0\n", p.release),
		"a.yaml":      manifest("ConfigMap", "platform", fmt.Sprintf("data: {release: \"%d\"}", p.release)),
	})
	return f.dir
}

// awaitInPlace waits until the leader's release is in place and both gates are open: the
// status that was written after a revision is DONE, and the mark and the object are of
// the same content.
func (p *pair) awaitInPlace(after int64) {
	p.Helper()
	cluster.Await(p.T, "the leader's release to be in place", func(ctx context.Context) error {
		v, err := p.status(ctx)
		if err != nil {
			return err
		}
		s := v.Status
		if v.Kind != protocol.StatusPresent || v.Revision <= after || v.Warning != "" || s.State != protocol.Done ||
			s.Version.Release != (protocol.Release{Major: 1, Minor: int64(p.release)}) || s.MinCompatible != (protocol.Release{}) {
			return fmt.Errorf("the status has revision %d, want one above %d: %s %s", v.Revision, after, s, v.Problem)
		}
		errs := []error{p.wantMark(ctx, s), p.wantObject(ctx)}
		for _, node := range p.nodes {
			errs = append(errs, node.Readyz(ctx))
		}
		return errors.Join(errs...)
	})
}

func (p *pair) status(ctx context.Context) (protocol.StatusView, error) {
	resp, err := p.client.Get(ctx, statusKey)
	if err != nil || len(resp.Kvs) == 0 {
		return protocol.StatusView{}, err
	}
	return status.Decode(new(etcd.NewKV(resp.Kvs[0]))), nil
}

// parent is where the set's parent is.
func (p *pair) parent() dynamic.ResourceInterface {
	return p.kube.Resource(configMaps).Namespace("kube-system")
}

func (p *pair) wantMark(ctx context.Context, s protocol.Status) error {
	obj, err := p.parent().Get(ctx, "lockstep", metav1.GetOptions{})
	if err != nil {
		return err
	}
	text, _, _ := unstructured.NestedString(obj.Object, "data", "mark.json")
	want := fmt.Sprintf(`"entries":[{"release":"%s","minReconcilerRelease":"0.0.0","minApiserverRelease":"0.0.0","digest":"%s","contentEpoch":%d}]`,
		s.ContentRelease, s.Digest, s.ContentEpoch)
	if !strings.Contains(text, `"firstDone":true`) || !strings.Contains(text, want) {
		return fmt.Errorf("the mark is %s, want %s", text, want)
	}
	return nil
}

func (p *pair) wantObject(ctx context.Context) error {
	obj, err := p.kube.Resource(configMaps).Namespace("default").Get(ctx, "platform", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := fmt.Sprint(obj.Object["data"]); got != fmt.Sprintf("map[release:%d]", p.release) {
		return fmt.Errorf("the object has %s, want release %d", got, p.release)
	}
	return nil
}

// editMark changes the set's parent, as kubectl edit does.
func (p *pair) editMark(edit func(*unstructured.Unstructured)) {
	p.Helper()
	cluster.Await(p.T, "the ConfigMap to be edited", func(ctx context.Context) error {
		obj, err := p.parent().Get(ctx, "lockstep", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(obj)
		_, err = p.parent().Update(ctx, obj, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		if err != nil && !apierrors.IsConflict(err) {
			p.Fatal(err)
		}
		return err
	})
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// logLines counts the lines with a text in a sidecar's log.
func (p *pair) logLines(s *cluster.Sidecar, text string) (n int) {
	p.Helper()
	log, err := os.ReadFile(s.LogFile())
	if err != nil {
		p.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// freezeLeader runs f while the leader's process is stopped, so that it does not replace
// the status that f writes.
func (p *pair) freezeLeader(f func()) {
	p.Helper()
	leader := p.nodes[p.leader]
	mustSignal(p.T, leader, syscall.SIGSTOP)
	defer mustSignal(p.T, leader, syscall.SIGCONT)
	cluster.Await(p.T, "all threads of the leader to be stopped", func(context.Context) error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", leader.PID()))
		for _, thread := range threads {
			stat, readErr := os.ReadFile(thread)
			if readErr == nil && !strings.Contains(string(stat), ") T ") {
				readErr = fmt.Errorf("got %s", stat)
			}
			err = errors.Join(err, readErr)
		}
		return err
	})
	f()
}

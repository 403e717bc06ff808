package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
)

const registryPrefix = "/registry/"

var keys = keyspace.Under("/lockstep/")

// The forms of an object that no bundle contains.
const (
	formDeleted = "deleted"
	formForeign = "of no bundle"
)

// history keeps every write of the bundles' objects and of the reconciler status since
// the cluster started, in order, and which node led then. It watches etcd: a watch of a
// kube-apiserver would miss writes, since an upgrade restarts the server. The
// kube-apiservers must store JSON.
type history struct {
	bundles  bundles
	note     func(text string)                               // called for each change of an object's form
	onRecord func(ctx context.Context, node, release string) // called when the release in a node's record changes

	// Only follow uses these.
	candidates map[string]candidate // by key
	undone     []*clientv3.Event    // of candidates: they count from the next revision on
	releases   map[string]string    // by node, as registered

	mu       sync.Mutex          // mu guards the fields below
	objects  map[string][]string // by ref: the form after each write
	statuses []string
	foreign  []error // statuses that another node wrote than the one that led
}

// candidate is a node that leads, if no other one's epoch is lower.
type candidate struct {
	node  string
	epoch int64
}

func newHistory(b bundles, note func(string), onRecord func(ctx context.Context, node, release string)) *history {
	return &history{
		bundles: b, note: note, onRecord: onRecord,
		candidates: map[string]candidate{}, releases: map[string]string{}, objects: map[string][]string{},
	}
}

// follow records until ctx ends.
func (h *history) follow(ctx context.Context, client *clientv3.Client) error {
	next := int64(1)
	for {
		err := h.watch(ctx, client, &next)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the walk has ended
		case errors.Is(err, rpctypes.ErrNoLeader): // of a member that stops; another one goes on
		case err != nil:
			return fmt.Errorf("watch etcd: %w", err)
		default:
			return errors.New("watch etcd: ended by itself")
		}
	}
}

// watch records the writes from the revision next on, and moves next.
func (h *history) watch(ctx context.Context, client *clientv3.Client, next *int64) error {
	watch := client.Watch(clientv3.WithRequireLeader(ctx), "/", clientv3.WithPrefix(), clientv3.WithRev(*next), clientv3.WithPrevKV())
	for resp := range watch {
		if err := resp.Err(); err != nil {
			return err
		}
		for _, ev := range resp.Events {
			*next = ev.Kv.ModRevision + 1
			if err := h.record(ctx, ev); err != nil {
				return fmt.Errorf("%s: %w", ev.Kv.Key, err)
			}
		}
	}
	return nil
}

func (h *history) record(ctx context.Context, ev *clientv3.Event) error {
	h.recordCandidates(ev.Kv.ModRevision)
	key := string(ev.Kv.Key)
	switch {
	case key == keys.Status():
		return h.recordStatus(ev)
	case strings.HasPrefix(key, keys.Leaders()):
		h.undone = append(h.undone, ev)
	case strings.HasPrefix(key, keys.Nodes()):
		return h.recordNode(ctx, ev)
	case strings.HasPrefix(key, registryPrefix):
		return h.recordObject(ev)
	}
	return nil
}

// recordCandidates records the changes of candidates before a revision. A leader that
// resigns writes the status in the transaction that deletes its key.
func (h *history) recordCandidates(revision int64) {
	if len(h.undone) == 0 || h.undone[0].Kv.ModRevision == revision {
		return
	}
	for _, ev := range h.undone {
		if key := string(ev.Kv.Key); ev.Type == clientv3.EventTypeDelete {
			delete(h.candidates, key)
		} else {
			h.candidates[key] = candidate{string(ev.Kv.Value), ev.Kv.CreateRevision}
		}
	}
	h.undone = nil
}

// leader returns the candidate that leads; empty: none does.
func (h *history) leader() candidate {
	var out candidate
	for _, c := range h.candidates {
		if out.epoch == 0 || c.epoch < out.epoch {
			out = c
		}
	}
	return out
}

// recordNode reports a node's record if its release changed.
func (h *history) recordNode(ctx context.Context, ev *clientv3.Event) error {
	if ev.Type == clientv3.EventTypeDelete {
		return nil
	}
	var n lockstepv1.Node
	if err := proto.Unmarshal(ev.Kv.Value, &n); err != nil {
		return err
	}
	release := dotted(n.GetStatus().GetVersion().GetRelease())
	if h.releases[n.GetId()] != release {
		h.releases[n.GetId()] = release
		h.onRecord(ctx, n.GetId(), release)
	}
	return nil
}

func (h *history) recordStatus(ev *clientv3.Event) error {
	status := formDeleted
	var s lockstepv1.ReconcilerStatus
	if ev.Type != clientv3.EventTypeDelete {
		if err := proto.Unmarshal(ev.Kv.Value, &s); err != nil {
			return err
		}
		status = describe(&s)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.statuses = append(h.statuses, status)
	if got, leads := (candidate{s.GetLeader(), s.GetEpoch()}), h.leader(); got != leads {
		h.foreign = append(h.foreign, fmt.Errorf("revision %d: %q of epoch %d wrote %s, and %q of epoch %d led",
			ev.Kv.ModRevision, got.node, got.epoch, status, leads.node, leads.epoch))
	}
	return nil
}

// describe returns a status in the form of cluster.Status.Describe.
func describe(s *lockstepv1.ReconcilerStatus) string {
	return fmt.Sprintf("%s %s min %s", strings.TrimPrefix(s.GetState().String(), "STATE_"),
		dotted(s.GetVersion().GetRelease()), dotted(s.GetMinimumCompatibleRelease()))
}

func dotted(r *lockstepv1.Release) string {
	return fmt.Sprintf("%d.%d.%d", r.GetMajor(), r.GetMinor(), r.GetPatch())
}

func (h *history) recordObject(ev *clientv3.Event) error {
	kv := ev.Kv
	if ev.Type == clientv3.EventTypeDelete {
		kv = ev.PrevKv
	}
	obj, err := decode(kv)
	if obj == nil || err != nil || !h.bundles.have(ref(obj)) {
		return err
	}
	form := formDeleted
	if ev.Type != clientv3.EventTypeDelete {
		form = h.bundles.formOf(obj)
	}
	h.add(ref(obj), form)
	return nil
}

// decode returns nil for a value that is not an API object in JSON.
func decode(kv *mvccpb.KeyValue) (*unstructured.Unstructured, error) {
	if kv == nil || !bytes.HasPrefix(kv.Value, []byte("{")) {
		return nil, nil
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(kv.Value, &obj.Object); err != nil {
		return nil, err
	}
	return obj, nil
}

func (h *history) add(name, form string) {
	h.mu.Lock()
	var before string
	if writes := h.objects[name]; len(writes) > 0 {
		before = writes[len(writes)-1]
	}
	h.objects[name] = append(h.objects[name], form)
	h.mu.Unlock()

	switch {
	case before == form:
	case form == formDeleted:
		h.note("- " + name)
	case before == "" || before == formDeleted:
		h.note("+ " + name)
	default:
		h.note("~ " + name)
	}
}

// checkStatuses compares all statuses so far with those that are allowed.
func (h *history) checkStatuses(want []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := slices.Compact(slices.Clone(h.statuses)); !slices.Equal(got, want) {
		return fmt.Errorf("got %s", strings.Join(got, " > "))
	}
	return nil
}

// checkLeaders returns nil if the node that led wrote each status.
func (h *history) checkLeaders() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.foreign...)
}

// checkWrites returns nil if each object was written once for each change of its form
// from bundle to bundle, in order. An object that two writers fight over, or that is
// written for no reason, is written more often.
func (h *history) checkWrites() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, obj := range h.bundles.all() {
		got, want := h.objects[ref(obj)], h.bundles.forms(ref(obj))
		if !slices.Equal(got, want) {
			errs = append(errs, fmt.Errorf("%s: got %s, want %s", ref(obj), strings.Join(got, ", "), strings.Join(want, ", ")))
		}
	}
	return errors.Join(errs...)
}

// writes counts all writes of the bundles' objects.
func (h *history) writes() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, forms := range h.objects {
		n += len(forms)
	}
	return n
}

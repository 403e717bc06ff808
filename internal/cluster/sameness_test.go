package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// wantRefused requires a refusal that contains all texts.
func wantRefused(t *testing.T, what string, err error, texts ...string) {
	t.Helper()
	refused, is := errors.AsType[*datadir.RefusedError](err)
	if !is {
		t.Errorf("%s: got %v, want a refusal", what, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(refused.Error(), text) {
			t.Errorf("%s: got %v, want %q in it", what, refused, text)
		}
	}
}

// A directory from before a restore contains another cluster ID than the members that answer:
// the node waits and says what to type, and no step makes it a member there.
func TestSameCluster(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	restored := f.marker.Cluster
	if err := f.same.check(t.Context()); err != nil {
		t.Errorf("of its own cluster: %v", err)
	}
	f.marker.Cluster, f.marker.Phase = "before", datadir.WithoutMember
	remedy := []string{f.dir.Path(), "is of cluster before", "is that of cluster " + restored, "`mv " + f.dir.Path(), "sidecar cluster token create", "docs/clusters.md#restore"}
	err := awaitSameCluster(t.Context(), f)
	wantRefused(t, "at its start", err, remedy...)
	if _, again := errors.AsType[transientError](err); !again {
		t.Errorf("got %v, want that the node waits", err)
	}
	c := newNode(f.parts, event.New[[]Observed](nil), f.show, t.Context().Done()).change
	for _, s := range []membership.Step{membership.BeginAdding, membership.AddLearner} {
		wantRefused(t, s.String(), c.take(t.Context(), s), remedy...)
	}
	if f.marker.Phase != datadir.WithoutMember || len(c.joining) != 0 {
		t.Errorf("got the phase %s, members %v", f.marker.Phase, c.joining)
	}

	if got := f.same.otherCluster(t.Context(), "before"); got != "" {
		t.Errorf("its own member counts as another one: %s", got)
	}
	f.shared.own = "https://127.0.0.1:1"
	for own, want := range map[string]bool{"before": true, restored: false} {
		found, stop := f.same.watch(t.Context())
		stop()
		if got := found.Get(); got != "" {
			t.Errorf("before a server was asked: %q", got)
		}
		if got := f.same.otherCluster(t.Context(), own); strings.Contains(got, "is that of cluster "+restored) != want || (got != "") != want {
			t.Errorf("a directory of cluster %s: got %q", own, got)
		}
	}
}

// The marker is not changed to fit another etcd. Only the name of a cluster from before a restore
// is replaced, if everything else in the record is this member's.
func TestCheckRecord(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	own, etcdID := f.marker.Cluster, f.current().ids().cluster
	written := func(id string, etcdCluster uint64) []byte {
		return record.EncodeCluster(record.Cluster{ID: id, EtcdClusterID: etcdCluster, Created: time.Now()})
	}
	wantRefused(t, "the record of another cluster", checkRecord(f, written("other", etcdID+1)), "is that of cluster "+own, "the record of cluster other", "docs/clusters.md#replace-a-node")
	if err := checkRecord(f, nil); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("a corrupt record: got %v", err)
	}
	if err := checkRecord(f, written(own, etcdID)); err != nil || f.marker.Cluster != own {
		t.Errorf("its own record: got %v, %+v", err, f.marker)
	}
	for _, phase := range []datadir.Phase{datadir.Begun, datadir.Member} {
		f.marker.Phase = phase
		renamed := phase == datadir.Member
		err := checkRecord(f, written("restored", etcdID))
		if onDisk, read := f.dir.ReadMarker(); (err == nil) != renamed || read != nil || (onDisk.Cluster == "restored") != renamed {
			t.Errorf("%s: got %v, %+v, %v", phase, err, onDisk, read)
		}
	}
}

// etcd does not compare its log with the marker, so a start does.
func TestCheckIdentity(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	if err := checkIdentity(t.Context(), f); err != nil {
		t.Error(err)
	}
	own := f.marker.MemberID
	f.marker.MemberID = "a1"
	wantRefused(t, "another member", checkIdentity(t.Context(), f), "started as the etcd member "+own, "the marker is of a1", "docs/clusters.md#replace-a-node")
}

package upstream

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// holds reports whether a transaction's condition does.
func (r *rig) holds(cond clientv3.Cmp) bool {
	r.Helper()
	resp, err := r.raw.Txn(r.Context()).If(cond).Commit()
	if err != nil {
		r.Fatal(err)
	}
	return resp.Succeeded
}

// Relied on: what a comparison means for a key that does not exist, and for an
// empty range. The guards of status, presence and record compare with 0 for "does
// not exist" (status/store.go, fleet/presence.go, fleet/register.go, fleet/admin.go).
func TestCompare_nothingThere(t *testing.T) {
	r := newRig(t)
	const key = "/none"
	none := clientv3.Compare(clientv3.ModRevision(key), "<", 5)
	for _, c := range []struct {
		what string
		cond clientv3.Cmp
		want bool
	}{
		{"mod revision < 5", none, true},
		{"mod revision = 0", clientv3.Compare(clientv3.ModRevision(key), "=", 0), true},
		{"mod revision > 0", clientv3.Compare(clientv3.ModRevision(key), ">", 0), false},
		{"create revision = 0", clientv3.Compare(clientv3.CreateRevision(key), "=", 0), true},
		{"create revision > 0", clientv3.Compare(clientv3.CreateRevision(key), ">", 0), false},
		{"version = 0", clientv3.Compare(clientv3.Version(key), "=", 0), true},
		{"lease = a lease", clientv3.Compare(clientv3.LeaseValue(key), "=", 7), false},
		{"value = nothing", clientv3.Compare(clientv3.Value(key), "=", ""), false},
		{"range: mod revision < 5", none.WithPrefix(), true},
		{"range: mod revision > 0", clientv3.Compare(clientv3.ModRevision(key), ">", 0).WithPrefix(), false},
		{"range: create revision = 0", clientv3.Compare(clientv3.CreateRevision(key), "=", 0).WithPrefix(), true},
		{"range: value = nothing", clientv3.Compare(clientv3.Value(key), "=", "").WithPrefix(), false},
	} {
		if got := r.holds(c.cond); got != c.want {
			broken(t, "for a missing key, the comparison "+c.what+" has the other result", "the guards of all our writes to etcd")
		}
	}
}

// Relied on, and known: the guard of a restriction compares the mod revisions of
// all node records at once. It must hold for each of them. A deleted record is
// invisible to it, and may be: a node without a record blocks nothing. So the guard
// cannot prove that no node left (status/store.go, Write; docs/protocol.md#rule-wait-for-nodes).
func TestCompare_range(t *testing.T) {
	r := newRig(t)
	r.put("/nodes/a", "")
	snapshot := r.put("/nodes/b", "")
	unchanged := func() bool {
		return r.holds(clientv3.Compare(clientv3.ModRevision("/nodes/").WithPrefix(), "<", snapshot+1))
	}
	const relies = "the guard on node records (status/store.go, Write)"
	r.put("/elsewhere", "")
	if !unchanged() {
		broken(t, "a comparison over a range fails though nothing in it changed", relies)
	}
	if _, err := r.raw.Delete(t.Context(), "/nodes/a"); err != nil {
		t.Fatal(err)
	}
	if !unchanged() {
		gone(t, "a comparison over a range sees deletions", "the caution in status/store.go, Write,")
	}
	r.put("/nodes/a", "")
	if unchanged() {
		broken(t, "a comparison over a range misses a key that was deleted and created again", relies)
	}
	snapshot = r.put("/nodes/b", "")
	r.put("/nodes/a", "changed")
	if unchanged() {
		broken(t, "a comparison over a range holds though one of its keys changed", relies)
	}
	r.put("/nodes/b", "changed")
	if unchanged() {
		broken(t, "a comparison over a range holds though both of its keys changed", relies)
	}
}

// Worked around: the header of a watch's answer has the store's revision, even if
// events up to that revision are still to come. A guard with that revision would
// hold although a node was not seen. Our lists have the revision of the last change
// in them, and no decision rests on a watch (etcd/watch.go; docs/protocol.md#snapshots).
func TestWatch_headerIsAheadOfTheEvents(t *testing.T) {
	r := newRig(t)
	var last int64
	for range 2500 { // the server sends at most a thousand revisions at once
		last = r.put("/nodes/a", "")
	}
	for resp := range r.raw.Watch(t.Context(), "/nodes/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := resp.Err(); err != nil {
			t.Fatal(err)
		}
		delivered := resp.Events[len(resp.Events)-1].Kv.ModRevision
		if resp.Header.Revision > delivered {
			return // seen
		}
		if delivered == last {
			break
		}
	}
	gone(t, "the header of a watch's answer never names a revision whose events are still to come", "taking the revision from the last event (etcd/watch.go, apply)")
}

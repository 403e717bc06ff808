package members

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// An empty list means that the store was lost, or did not answer: the known members stay, for
// the client and on the disk.
func TestDirectory_emptyList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members.json")
	published := 0
	d := New(Config{File: path, Publish: func([]Member) { published++ }, Log: slog.New(slog.DiscardHandler)})
	keys := keyspace.Under("/p")
	records := []*etcd.KV{{Key: keys.ClusterMember(1), Value: record.EncodeMember(record.Member{Node: "a", ClientURL: "u"})}}
	d.update(func() { d.learners = nil }) // the records were not listed yet
	if got := d.List().Get(); len(got) != 0 || published != 1 {
		t.Fatalf("got %+v, published %d times", got, published)
	}
	d.update(func() { d.records, d.listed = records, true })
	for name, lost := range map[string][]*etcd.KV{"no record": nil, "none that is valid": {{Key: records[0].Key, Value: []byte("\xff")}}} {
		d.update(func() { d.records = lost })
		kept, err := Read(path)
		if got := d.List().Get(); len(got) != 1 || published != 2 || err != nil || !slices.Equal(got, kept) {
			t.Errorf("%s: got %+v, published %d times, on the disk %+v, %v", name, got, published, kept, err)
		}
	}
}

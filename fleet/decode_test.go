package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A decoder that knows the listing before returns what one returns that knows nothing:
// after writes, deletions, corrupt values, and after a restore that has another value
// at the same revision.
func TestDecoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := [][]byte{[]byte("\xff"), nil}
	for i := range 5 {
		n := node(t, fmt.Sprintf("n%d", i), "1.0.0")
		values = append(values, Encode(n))
		n.Version = protocol.Version{Release: rel(t, "2.0.0")}
		values = append(values, Encode(n))
	}
	listing := func(under string) etcd.Listing {
		l := etcd.Listing{At: etcd.At{Revision: 1 + random.Int64N(9)}}
		for i := range 6 {
			if random.IntN(3) > 0 {
				l.KVs = append(l.KVs, &etcd.KV{
					Key: under + fmt.Sprintf("n%d", i), Value: values[random.IntN(len(values))], ModRevision: random.Int64N(3),
				})
			}
		}
		return l
	}
	var d Decoder
	nodes, presences := listing(keys.Nodes()), listing(keys.Presences())
	for range 2000 {
		if random.IntN(2) == 0 {
			nodes = listing(keys.Nodes())
		} else {
			presences = listing(keys.Presences())
		}
		got, want := d.Decode(keys, nodes, presences), Decode(keys, nodes, presences)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if !slices.IsSortedFunc(got.Records, func(a, b *protocol.Record) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
			t.Fatalf("not sorted: %+v", got.Records)
		}
		for i := range got.Records {
			got.Records[i] = nil // the slice belongs to the caller
		}
	}
}

// BenchmarkDecoder_oneOf5000 is one changed presence in a fleet of 5,000 nodes.
func BenchmarkDecoder_oneOf5000(b *testing.B) {
	var nodes, presences etcd.Listing
	for i := range 5000 {
		id := protocol.NodeID(fmt.Sprintf("node-%04d", i))
		n := protocol.Node{
			ID: id, Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: protocol.Release{Major: 1}},
			Address: "http://10.0.0.1:8086", Digest: "sha256:" + strings.Repeat("0", 64), BootID: strings.Repeat("b", 36),
		}
		nodes.KVs = append(nodes.KVs, &etcd.KV{Key: keys.Node(id), Value: Encode(n), ModRevision: 1, CreateRevision: 1, Version: 1})
		presence := protocol.Presence{Instance: strings.Repeat("i", 32), Ready: true, Reason: protocol.Ready}
		presences.KVs = append(presences.KVs, &etcd.KV{Key: keys.Presence(id), Value: encodePresence(presence, time.Unix(0, 0)), ModRevision: 1, CreateRevision: 1, Version: 1})
	}
	nodes.Revision = 1
	var d Decoder
	d.Decode(keys, nodes, presences)
	b.ReportAllocs()
	for i := int64(2); b.Loop(); i++ {
		presences.KVs = slices.Clone(presences.KVs) // as Follow does
		changed := *presences.KVs[2500]
		changed.ModRevision = i
		presences.KVs[2500] = &changed
		if f := d.Decode(keys, nodes, presences); len(f.Records) != 5000 {
			b.Fatal("not all records")
		}
	}
}

package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// TestCensus: a census that followed a fleet through many changes is that of the last fleet, and answers as one that reads all
// records would.
func TestCensus(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c, f := &census{}, protocol.Fleet{}
	for i := range 3000 {
		next := changedFleet(rng, f)
		c.follow(f, next)
		f = next
		if again := censusOf(f); len(c.notable)+len(again.notable) > 0 && !slices.Equal(c.notable, again.notable) ||
			!reflect.DeepEqual(c.controllers, again.controllers) {
			t.Fatalf("after %d changes: got %v, want %v", i+1, c, again)
		}
		wantAnswers(t, c, f)
	}
}

// changedFleet returns a fleet in which up to three records were added, written or deleted.
func changedFleet(rng *rand.Rand, f protocol.Fleet) protocol.Fleet {
	f.Revision++
	f.Records = slices.Clone(f.Records)
	for range rng.IntN(4) {
		id := protocol.NodeID(fmt.Sprintf("n-%02d", rng.IntN(12)))
		f.Records = slices.DeleteFunc(f.Records, func(r *protocol.Record) bool { return r.ID == id })
		if rng.IntN(4) == 0 {
			continue
		}
		r := record(id, protocol.Release{Major: 1, Minor: rng.Int64N(3)}, f.Revision)
		r.Alive, r.Presence.Ready, r.Node.Roles.Controller = rng.IntN(4) > 0, rng.IntN(4) > 0, rng.IntN(4) > 0
		r.Node.Bundle = []string{"", "acme", "base"}[rng.IntN(3)]
		if rng.IntN(4) == 0 {
			r.Node.Cordon.Since = t0
		}
		if rng.IntN(8) == 0 {
			r.Problem = "garbage"
		}
		f.Records = append(f.Records, r)
	}
	slices.SortFunc(f.Records, func(a, b *protocol.Record) int { return cmp.Compare(a.ID, b.ID) })
	return f
}

// wantAnswers requires the answers that all records give.
func wantAnswers(t *testing.T, c *census, f protocol.Fleet) {
	t.Helper()
	view := status(protocol.Done, r1, 1)
	view.Status.Bundle = "acme"
	var notable []*protocol.Record
	releases, serves, low, high := map[protocol.Release]bool{}, true, r1, r1
	for _, r := range f.Records {
		if r.Counts() && !r.Serves() || r.Node.Cordon.On() {
			notable = append(notable, r)
		}
		serves = serves && (!r.Counts() || r.Serves())
		if r.Problem != "" || !r.Node.Roles.Controller {
			continue
		}
		release := r.Node.Version.Release
		releases[release] = true
		if protocol.ForeignBundle(view, r.Node.Bundle) == "" {
			low = slices.MinFunc([]protocol.Release{low, release}, protocol.Release.Compare)
			high = slices.MaxFunc([]protocol.Release{high, release}, protocol.Release.Compare)
		}
	}
	release, one := c.release()
	gotLow, gotHigh := c.span(view, r1)
	if !slices.Equal(c.notable, notable) || c.serves() != serves || one != (len(releases) == 1) || one && !releases[release] ||
		gotLow != low || gotHigh != high {
		t.Fatalf("of %d records: got %d notable, serves %t, one release %t, from %s to %s; want %d, %t, %d releases, from %s to %s",
			len(f.Records), len(c.notable), c.serves(), one, gotLow, gotHigh, len(notable), serves, len(releases), low, high)
	}
}

// censusOf returns the census of a fleet, for which no earlier one is known.
func censusOf(f protocol.Fleet) *census {
	c := &census{}
	c.follow(protocol.Fleet{}, f)
	return c
}

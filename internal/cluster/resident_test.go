package cluster

import (
	"testing"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// While a node joins, the cluster may add it again as another member: the data of the first one
// goes, unless its process runs or it was ever a working member.
func TestResident_clearsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		phase       datadir.Phase
		intent      datadir.Intent
		id          string
		runs        bool
		kept, fails bool
	}{
		"as another member":        {datadir.Enrolled, datadir.Join, "a2", false, false, false},
		"as the same":              {datadir.Enrolled, datadir.Join, "a1", false, true, false},
		"while its process runs":   {datadir.Enrolled, datadir.Join, "a2", true, true, true},
		"that worked":              {datadir.Member, datadir.Join, "a2", false, true, true},
		"that founded its cluster": {datadir.Begun, datadir.Create, "a2", false, true, true},
		"that is restored":         {datadir.Begun, datadir.Restore, "a2", false, true, true},
	} {
		d := newBrittleDisk()
		d.place(datadir.Marker{Intent: tc.intent, Phase: tc.phase, MemberID: "a1"})
		d.write("a1")
		r := &resident{disk: d, run: event.New[*memberRun](nil), marker: d.marker, adopted: func(datadir.Marker) {}}
		if tc.runs {
			r.run.Set(&memberRun{done: make(chan struct{})})
		}
		if err := r.clearReplaced(tc.id); (err != nil) != tc.fails || d.EtcdBegun() != tc.kept {
			t.Errorf("%s: got %v, and the disk has %v", name, err, d.lives)
		}
	}
}

// Data that was moved away stays away after a power failure: the other members learn after
// the move that nothing is left.
func TestResident_movedAwayForGood(t *testing.T) {
	d := newBrittleDisk()
	d.place(datadir.Marker{Intent: datadir.Join, Phase: datadir.Leaving, MemberID: "a1"})
	d.write("a1")
	r := &resident{disk: d, run: event.New[*memberRun](nil), marker: d.marker, adopted: func(datadir.Marker) {}}
	if err := r.moveAway(membership.NotListed); err != nil {
		t.Fatal(err)
	}
	d.lose()
	if d.EtcdBegun() || d.lives[d.Left()] != "a1" {
		t.Errorf("after a power failure the disk has %v", d.lives)
	}
}

package rollout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// rel parses a release of a test.
func rel(s string) (r protocol.Release) {
	if _, err := fmt.Sscanf(s, "%d.%d.%d", &r.Major, &r.Minor, &r.Patch); err != nil {
		panic(err)
	}
	return r
}

func ver(s string) protocol.Version { return protocol.Version{Release: rel(s)} }

// garbage is a status that cannot be decoded.
var garbage = protocol.StatusView{Kind: protocol.StatusUndecodable, Problem: "garbage", Revision: 50}

// noStatus is an absent status.
var noStatus = protocol.StatusView{Kind: protocol.StatusAbsent}

// rollingFleet is a fleet of nodes a, b, ... that are ready; b leads, or the only one.
func rollingFleet(versions ...string) protocol.Fleet {
	f := protocol.Fleet{Revision: 50}
	for i, release := range versions {
		id := protocol.NodeID(rune('a' + i))
		r := &protocol.Record{
			ID: id, Alive: true, Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, Election: protocol.Campaigning},
			Node: protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}, Version: ver(release), Digest: "d" + release},
		}
		if i == min(1, len(versions)-1) {
			r.Presence.Election = protocol.Leading
		}
		f.Records = append(f.Records, r)
	}
	return f
}

func doneAt(release, minimum string) protocol.StatusView {
	return protocol.StatusView{Kind: protocol.StatusPresent, Revision: 50, Status: protocol.Status{
		State: protocol.Done, Version: ver(release), MinCompatible: rel(minimum), Leader: "b", Epoch: 7,
		Digest: "d" + release, ContentRelease: rel(release), ContentEpoch: 3,
	}}
}

func bundleOf(release, m, a string) protocol.Local {
	return protocol.Local{Version: ver(release), Digest: "d" + release, Constraints: protocol.Constraints{MinReconciler: rel(m), MinAPIServer: rel(a)}}
}

// outline is a forecast in short: a line for each move and each obstacle.
func outline(f Forecast) string {
	var b strings.Builder
	for _, m := range f.Moves {
		fmt.Fprintf(&b, "%s %s: ", m.Kind, m.Node)
		if m.Kind == MoveUpgrade {
			fmt.Fprintf(&b, "%v then ", m.While.Ready())
		}
		s := m.After.Status.Status
		fmt.Fprintf(&b, "%v, %s %s min %s, %s leads", m.After.Ready(), s.State, s.Version, s.MinCompatible, m.After.Leader)
		if waitsFor := protocol.BlockerNames(m.After.Step.Blockers); waitsFor != "" {
			fmt.Fprintf(&b, ", waits for %s", waitsFor)
		}
		b.WriteString("\n")
	}
	for _, o := range f.Obstacles {
		fmt.Fprintf(&b, "%s %s: %s\n", o.Reason, o.Subject, o.Message)
	}
	return b.String()
}

// three is a fleet of three ready nodes at 1.0.0.
func three() protocol.Fleet { return rollingFleet("1.0.0", "1.0.0", "1.0.0") }

// with changes one record of a fleet.
func with(f protocol.Fleet, i int, change func(*protocol.Record)) protocol.Fleet {
	change(f.Records[i])
	return f
}

func dead(r *protocol.Record) { r.Alive, r.Presence = false, protocol.Presence{} }

// printed is everything that an input refers to.
func printed(in Input) string {
	out := fmt.Sprint(in.Status, in.Store, in.Mark, in.Bundle, in.Fleet.Revision)
	for _, r := range in.Fleet.Records {
		out += fmt.Sprintf("\n%+v", *r)
	}
	return out
}

// simulationCase is a rollout, and the outline of its forecast.
type simulationCase struct {
	name string
	in   Input
	want string
}

func runSimulations(t *testing.T, cases []simulationCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			before := printed(tt.in)
			f := Simulate(tt.in)
			if got, want := outline(f), strings.TrimPrefix(tt.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if printed(tt.in) != before {
				t.Error("the input was changed")
			}
			for _, m := range f.Moves {
				t.Log(m.Node, m.Changed, m.Events)
			}
		})
	}
}

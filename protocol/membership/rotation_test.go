package membership

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func rotating(phase RotationPhase, turn protocol.NodeID, nodes ...RotationNode) RotationFacts {
	f := RotationFacts{Phase: phase, Turn: turn}
	for _, n := range nodes {
		f.Given = append(f.Given, n.ID)
		f.Nodes = append(f.Nodes, n)
	}
	return f
}

func TestNextRotationStep(t *testing.T) {
	// As they are at first, and when they trust both CAs, use the new one, and have dropped the old one.
	first := func(id protocol.NodeID) RotationNode {
		return RotationNode{ID: id, Voter: true, Healthy: true, Alive: true, TrustsOld: true}
	}
	both := func(id protocol.NodeID) RotationNode { n := first(id); n.TrustsNew, n.HasKey = true, true; return n }
	uses := func(id protocol.NodeID) RotationNode { n := both(id); n.UsesNew = true; return n }
	dropped := func(id protocol.NodeID) RotationNode { n := uses(id); n.TrustsOld = false; return n }
	off := func(n RotationNode) RotationNode { n.Alive, n.Healthy = false, false; return n }
	follower := func(n RotationNode) RotationNode { n.Voter, n.Healthy, n.HasKey = false, false, false; return n }
	lost := rotating(RotationTrusting, "", both("a"), first("b"))
	lost.Given = append(lost.Given, "evil")
	late := rotating(RotationIssuing, "", uses("a"))
	late.Given = append(late.Given, "evil")
	newVoter := rotating(RotationTrusting, "", both("a"), first("b"))
	newVoter.Given = []protocol.NodeID{"a"}
	for name, tc := range map[string]struct {
		facts RotationFacts
		want  RotationStep
	}{
		"no rotation":               {rotating(NoRotation, "", first("a")), RotationStep{}},
		"requested":                 {rotating(RotationRequested, "", first("a")), RotationStep{Action: CreateCA}},
		"a removed node has it":     {lost, RotationStep{Action: StartOver}},
		"removed later":             {late, RotationStep{Action: BeginDropping}},
		"a voter without leave":     {newVoter, RotationStep{Action: AllowKey, Node: "b"}},
		"the first turn":            {rotating(RotationTrusting, "", both("a"), first("b"), first("c")), RotationStep{GiveTurn, "b", []protocol.NodeID{"b", "c"}}},
		"one has the turn":          {rotating(RotationTrusting, "b", both("a"), first("b"), first("c")), RotationStep{Waits: []protocol.NodeID{"b", "c"}}},
		"its turn is over":          {rotating(RotationTrusting, "b", both("a"), both("b"), first("c")), RotationStep{GiveTurn, "c", []protocol.NodeID{"c"}}},
		"the turn of a removed one": {rotating(RotationTrusting, "x", both("a"), first("b")), RotationStep{GiveTurn, "b", []protocol.NodeID{"b"}}},
		"one of three is off":       {rotating(RotationTrusting, "", first("a"), first("b"), off(first("c"))), RotationStep{Waits: []protocol.NodeID{"a", "b", "c"}}},
		"one of two is off":         {rotating(RotationTrusting, "", first("a"), off(first("b"))), RotationStep{Waits: []protocol.NodeID{"a", "b"}}},
		"alone":                     {rotating(RotationTrusting, "", first("a")), RotationStep{GiveTurn, "a", []protocol.NodeID{"a"}}},
		"a node without a member":   {rotating(RotationTrusting, "", both("a"), off(both("b")), both("c"), follower(first("d"))), RotationStep{GiveTurn, "d", []protocol.NodeID{"d"}}},
		"a voter without the key":   {rotating(RotationTrusting, "", both("a"), func() RotationNode { n := both("b"); n.HasKey = false; return n }()), RotationStep{Waits: []protocol.NodeID{"b"}}},
		"all trust both":            {rotating(RotationTrusting, "", both("a"), follower(both("d"))), RotationStep{Action: BeginIssuing}},
		"issuing":                   {rotating(RotationIssuing, "", uses("a"), off(both("b"))), RotationStep{Waits: []protocol.NodeID{"b"}}},
		"all use it":                {rotating(RotationIssuing, "", uses("a"), off(uses("b"))), RotationStep{Action: BeginDropping}},
		"dropping":                  {rotating(RotationDropping, "", uses("a"), dropped("b"), dropped("c")), RotationStep{GiveTurn, "a", []protocol.NodeID{"a"}}},
		"all have dropped it":       {rotating(RotationDropping, "a", dropped("a"), dropped("b")), RotationStep{Action: EndRotation}},
	} {
		t.Run(name, func(t *testing.T) {
			got := NextRotationStep(tc.facts)
			if got.Action != tc.want.Action || got.Node != tc.want.Node || !slices.Equal(got.Waits, tc.want.Waits) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	if got := LostKeys(late); !slices.Equal(got, []protocol.NodeID{"evil"}) {
		t.Errorf("got %v, want evil", got)
	}
}

func TestNextRotationDuty(t *testing.T) {
	for name, tc := range map[string]struct {
		phase RotationPhase
		turn  protocol.NodeID
		self  RotationNode
		want  RotationDuty
	}{
		"nothing":             {NoRotation, "a", RotationNode{ID: "a"}, NoDuty},
		"not its turn":        {RotationTrusting, "b", RotationNode{ID: "a", TrustsOld: true}, NoDuty},
		"its turn":            {RotationTrusting, "a", RotationNode{ID: "a", TrustsOld: true}, TrustBoth},
		"a voter":             {RotationTrusting, "", RotationNode{ID: "a", Voter: true, TrustsNew: true}, FetchKey},
		"a voter with it":     {RotationTrusting, "", RotationNode{ID: "a", Voter: true, TrustsNew: true, HasKey: true}, NoDuty},
		"no voter":            {RotationTrusting, "", RotationNode{ID: "a", TrustsNew: true}, NoDuty},
		"the old one":         {RotationIssuing, "", RotationNode{ID: "a", TrustsNew: true}, UseNewCA},
		"the new one":         {RotationIssuing, "", RotationNode{ID: "a", UsesNew: true}, NoDuty},
		"drops, not its turn": {RotationDropping, "b", RotationNode{ID: "a", TrustsOld: true}, NoDuty},
		"drops":               {RotationDropping, "a", RotationNode{ID: "a", TrustsOld: true}, DropOldCA},
		"has dropped":         {RotationDropping, "a", RotationNode{ID: "a"}, NoDuty},
	} {
		f := RotationFacts{Phase: tc.phase, Turn: tc.turn, Given: []protocol.NodeID{"a"}}
		if got := NextRotationDuty(f, tc.self); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

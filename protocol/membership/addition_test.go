package membership

import "testing"

func TestJudgeAddition(t *testing.T) {
	node := AddedNode{Node: "c", Key: "kc", Address: "10.0.0.3", PeerURL: "https://10.0.0.3:2380", ClientURL: "https://10.0.0.3:2379"}
	other := AddedNode{Node: "a", Key: "ka", Address: "10.0.0.1", PeerURL: "https://10.0.0.1:2380", ClientURL: "https://10.0.0.1:2379"}
	at := func(url string, m Occupant) Occupant { m.PeerURLs = []string{url}; return m }
	first := at(other.PeerURL, Occupant{Recorded: true, Started: true, AddedNode: other})
	otherKey, sameClient := node, other
	otherKey.Key = "kd"
	sameClient.Address, sameClient.ClientURL = node.Address, node.ClientURL
	for name, tc := range map[string]struct {
		second  Occupant
		removed []string
		want    AdditionVerdict
		which   int
	}{
		"free":                     {at("https://10.0.0.2:2380", Occupant{}), nil, MayAdd, -1},
		"added before":             {at(node.PeerURL, Occupant{Recorded: true, Started: true, AddedNode: node}), nil, WasAdded, 1},
		"added, not recorded":      {at(node.PeerURL, Occupant{Learner: true}), nil, WasAdded, 1},
		"started, not recorded":    {at(node.PeerURL, Occupant{Learner: true, Started: true}), nil, PeerInUse, 1},
		"a voter without a record": {at(node.PeerURL, Occupant{}), nil, PeerInUse, 1},
		"another node there":       {at(node.PeerURL, Occupant{Recorded: true, Learner: true, AddedNode: other}), nil, PeerInUse, 1},
		"another key there":        {at(node.PeerURL, Occupant{Recorded: true, Learner: true, AddedNode: otherKey}), nil, PeerInUse, 1},
		"the ID elsewhere":         {at("https://10.0.0.9:2380", Occupant{Recorded: true, AddedNode: node}), nil, NodeInUse, 1},
		"the client URL":           {at("https://10.0.0.3:9", Occupant{Recorded: true, AddedNode: sameClient}), nil, ClientInUse, 1},
		"a client URL in a record of none": {
			at("https://10.0.0.3:9", Occupant{AddedNode: sameClient}), nil, MayAdd, -1,
		},
		"evicted, without a node": {at(node.PeerURL, Occupant{Recorded: true, Leaving: true, Learner: true}), nil, AwaitRemoval, 1},
		"its own, and leaving":    {at(node.PeerURL, Occupant{Recorded: true, Leaving: true, AddedNode: node}), nil, WasAdded, 1},
		"removed for good":        {at(node.PeerURL, Occupant{Recorded: true, AddedNode: node}), []string{"kx", "kc"}, KeyRemoved, 1},
	} {
		if got, which := JudgeAddition(node, []Occupant{first, tc.second}, tc.removed); got != tc.want || which != tc.which {
			t.Errorf("%s: got %d by %d, want %d by %d", name, got, which, tc.want, tc.which)
		}
	}
	// A member that is its own does not hide another one that is in its way.
	own := at(node.PeerURL, Occupant{Learner: true})
	elsewhere := at("https://10.0.0.9:2380", Occupant{Recorded: true, AddedNode: node})
	if got, which := JudgeAddition(node, []Occupant{own, elsewhere}, nil); got != NodeInUse || which != 1 {
		t.Errorf("got %d by %d", got, which)
	}
}

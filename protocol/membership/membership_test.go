package membership

import (
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestJudgeRemoval(t *testing.T) {
	up, down, leaves := protocol.Voter{Healthy: true}, protocol.Voter{}, protocol.Voter{Healthy: true, Leaving: true}
	for name, tc := range map[string]struct {
		others []protocol.Voter
		want   RemovalVerdict
	}{
		"the only voter":                               {nil, KeepLastVoter},
		"all others leave":                             {[]protocol.Voter{leaves, leaves}, KeepLastVoter},
		"one of two":                                   {[]protocol.Voter{up}, MayRemove},
		"one of two, the other is down":                {[]protocol.Voter{down}, KeepQuorum},
		"one of three":                                 {[]protocol.Voter{up, up}, MayRemove},
		"a voter that answers, and one is down":        {[]protocol.Voter{up, down}, KeepQuorum},
		"one of three, another one leaves":             {[]protocol.Voter{up, leaves}, MayRemove},
		"the one that stays is down":                   {[]protocol.Voter{down, leaves, leaves}, KeepQuorum},
		"one of five, two are down":                    {[]protocol.Voter{up, up, down, down}, KeepQuorum},
		"a voter that is down, another one is too":     {[]protocol.Voter{up, up, up, down}, MayRemove},
		"two that leave have carried the majority":     {[]protocol.Voter{up, down, leaves}, KeepQuorum},
		"one that is down leaves, and still counts":    {[]protocol.Voter{up, {Leaving: true}}, KeepQuorum},
		"one of five, another one leaves":              {[]protocol.Voter{up, up, up, leaves}, MayRemove},
		"one of five, another one leaves, one is down": {[]protocol.Voter{up, up, down, leaves}, MayRemove},
	} {
		if got := JudgeRemoval(tc.others); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// allMemberFacts calls f with every combination.
func allMemberFacts(f func(Facts)) {
	bools := []bool{false, true}
	for phase := PhaseUnset; phase <= WithoutMember; phase++ {
		for listed := ListedUnknown; listed <= ListedVoter; listed++ {
			for _, known := range bools {
				for _, wanted := range bools {
					for _, decided := range bools {
						for _, data := range bools {
							for _, runs := range bools {
								for _, removed := range bools {
									f(Facts{Known: known, Wanted: wanted, Phase: phase, Listed: listed, Decided: decided, Data: data, Runs: runs, Removed: removed})
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestNextStep_always(t *testing.T) {
	allMemberFacts(func(f Facts) {
		step := NextStep(f)
		wrong := map[string]bool{
			"there is no step":                               step == 0,
			"data is moved while etcd may use it":            step == MoveData && f.Runs && f.Phase != WithoutMember,
			"data is moved while the member may vote":        step == MoveData && f.Listed != NotListed && f.Phase != WithoutMember,
			"a process ends while the member may vote":       step == StopMember && f.Listed != NotListed,
			"the node has no member, and the cluster does":   step == EndLeaving && f.Listed != NotListed,
			"data is left behind":                            step == EndLeaving && (f.Data || f.Runs),
			"a member is added over other data":              step == AddLearner && (f.Data || f.Runs),
			"a voter without data begins again":              step == StartMember && !f.Data && f.Listed != ListedLearner,
			"a removal begins, and the roles are unknown":    step == BeginLeaving && !f.Known && f.Phase == Working,
			"a removal that was decided is forgotten":        f.Decided && f.Phase == Leaving && (step == EndAdding || step == BeginAdding),
			"a member that is being removed counts on votes": f.Decided && (step == EndAdding || step == AwaitVote),
			"a node that may vote ends for good":             step == EndRemoved && (f.Listed != NotListed || f.Data || f.Runs || !f.Removed),
			"a node asks for ever with a refused key":        f.Removed && (step == AddLearner || step == EndLeaving),
		}
		for what, is := range wrong {
			if is {
				t.Errorf("%s: %+v: %s", what, f, step)
			}
		}
	})
}

// The ways that go without trouble, step by step.
func TestNextStep(t *testing.T) {
	for _, tc := range []struct {
		facts Facts
		want  Step
	}{
		{Facts{Known: true, Wanted: true, Phase: WithoutMember, Listed: NotListed}, BeginAdding},
		{Facts{Known: true, Wanted: true, Phase: Adding}, AskMembers},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: NotListed}, AddLearner},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: ListedLearner}, StartMember},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: ListedLearner, Data: true, Runs: true}, AwaitVote},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: ListedVoter, Data: true, Runs: true}, EndAdding},
		// An eviction that was decided may be carried out when the member votes.
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: ListedLearner, Data: true, Runs: true, Decided: true}, BeginLeaving},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: ListedVoter, Data: true, Runs: true, Decided: true}, BeginLeaving},
		{Facts{Known: true, Wanted: true, Phase: Working, Listed: ListedVoter, Data: true, Runs: true}, AsIs},
		{Facts{Phase: Working, Data: true, Runs: true}, AsIs},
		{Facts{Known: true, Phase: Working, Listed: ListedVoter, Data: true, Runs: true}, BeginLeaving},
		{Facts{Known: true, Phase: Leaving, Listed: ListedVoter, Data: true, Runs: true}, RemoveMember},
		{Facts{Known: true, Phase: Leaving, Listed: NotListed, Data: true, Runs: true}, StopMember},
		{Facts{Known: true, Phase: Leaving, Listed: NotListed, Data: true}, MoveData},
		{Facts{Known: true, Phase: Leaving, Listed: NotListed}, EndLeaving},
		{Facts{Known: true, Phase: WithoutMember, Listed: NotListed}, AsIs},
		// People remove it for good, while it leaves or becomes a member.
		{Facts{Known: true, Phase: Leaving, Listed: ListedVoter, Data: true, Runs: true, Decided: true, Removed: true}, RemoveMember},
		{Facts{Known: true, Phase: Leaving, Listed: NotListed, Data: true, Runs: true, Removed: true}, StopMember},
		{Facts{Known: true, Phase: Leaving, Listed: NotListed, Removed: true}, EndRemoved},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: NotListed, Data: true, Runs: true, Removed: true}, BeginLeaving},
		{Facts{Known: true, Wanted: true, Phase: Adding, Listed: NotListed, Removed: true}, EndRemoved},
		// A power failure of all nodes: this one is needed for the majority.
		{Facts{Phase: Leaving, Data: true}, StartMember},
		{Facts{Phase: Adding, Data: true}, StartMember},
		{Facts{Phase: Leaving, Data: true, Runs: true, Listed: ListedVoter}, AsIs},
		// The role is given back.
		{Facts{Known: true, Wanted: true, Phase: Leaving, Listed: ListedVoter, Data: true, Runs: true}, EndAdding},
		{Facts{Known: true, Wanted: true, Phase: Leaving, Listed: ListedVoter, Data: true, Runs: true, Decided: true}, RemoveMember},
		{Facts{Known: true, Wanted: true, Phase: Leaving, Listed: ListedLearner, Data: true, Runs: true}, BeginAdding},
	} {
		if got := NextStep(tc.facts); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.facts, got, tc.want)
		}
	}
	if got := Step(-1).String(); got != "Unset" {
		t.Error(got)
	}
}

// A node that has the role again leaves only if its removal was decided before: that decision stays.
func TestMayLeave(t *testing.T) {
	for _, tt := range []struct{ lost, decided, want bool }{{true, false, true}, {true, true, true}, {false, true, true}, {false, false, false}} {
		if got := MayLeave(tt.lost, tt.decided); got != tt.want {
			t.Errorf("%+v: got %t", tt, got)
		}
	}
}

func TestJudgeCost(t *testing.T) {
	up, down, leaves := protocol.Voter{Healthy: true}, protocol.Voter{}, protocol.Voter{Healthy: true, Leaving: true}
	for name, tt := range map[string]struct {
		target protocol.Voter
		others []protocol.Voter
		want   Cost
	}{
		"one of three":                                    {up, []protocol.Voter{up, up}, CostsSpare},
		"one of two":                                      {up, []protocol.Voter{up}, CostsCopy},
		"one of three, another one leaves":                {up, []protocol.Voter{up, leaves}, CostsCopy},
		"one of four":                                     {up, []protocol.Voter{up, up, up}, CostsNothing},
		"one of four, another one leaves":                 {up, []protocol.Voter{up, up, leaves}, CostsSpare},
		"one of five":                                     {up, []protocol.Voter{up, up, up, up}, CostsNothing},
		"one of five, another one is down":                {up, []protocol.Voter{up, up, up, down}, CostsSpare},
		"one of three that is down":                       {down, []protocol.Voter{up, up}, CostsNothing},
		"one of three that leaves":                        {leaves, []protocol.Voter{up, up}, CostsNothing},
		"the one that is down, of five, of which two are": {down, []protocol.Voter{up, up, up, down}, CostsNothing},
	} {
		if got := JudgeCost(tt.target, tt.others); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

// TestEndsAtWork: neither a list that is unknown, nor a removal that was not for good, ends a working member.
func TestEndsAtWork(t *testing.T) {
	for _, listed := range []Listed{ListedUnknown, NotListed, ListedLearner, ListedVoter} {
		for _, removed := range []bool{false, true} {
			if got, want := EndsAtWork(listed, removed), listed == NotListed && removed; got != want {
				t.Errorf("listed %d, removed %t: got %t", listed, removed, got)
			}
		}
	}
}

package protocol

import "testing"

func TestJudgeRemoval(t *testing.T) {
	up, down, leaves := Voter{Healthy: true}, Voter{}, Voter{Healthy: true, Leaving: true}
	for name, tc := range map[string]struct {
		others []Voter
		want   RemovalVerdict
	}{
		"the only voter":                               {nil, KeepLastVoter},
		"all others leave":                             {[]Voter{leaves, leaves}, KeepLastVoter},
		"one of two":                                   {[]Voter{up}, MayRemove},
		"one of two, the other is down":                {[]Voter{down}, KeepQuorum},
		"one of three":                                 {[]Voter{up, up}, MayRemove},
		"a voter that answers, and one is down":        {[]Voter{up, down}, KeepQuorum},
		"one of three, another one leaves":             {[]Voter{up, leaves}, MayRemove},
		"the one that stays is down":                   {[]Voter{down, leaves, leaves}, KeepQuorum},
		"one of five, two are down":                    {[]Voter{up, up, down, down}, KeepQuorum},
		"a voter that is down, another one is too":     {[]Voter{up, up, up, down}, MayRemove},
		"two that leave have carried the majority":     {[]Voter{up, down, leaves}, KeepQuorum},
		"one that is down leaves, and still counts":    {[]Voter{up, {Leaving: true}}, KeepQuorum},
		"one of five, another one leaves":              {[]Voter{up, up, up, leaves}, MayRemove},
		"one of five, another one leaves, one is down": {[]Voter{up, up, down, leaves}, MayRemove},
	} {
		if got := JudgeRemoval(tc.others); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// allMemberFacts calls f with every combination.
func allMemberFacts(f func(MemberFacts)) {
	bools := []bool{false, true}
	for phase := MemberPhaseUnset; phase <= WithoutMember; phase++ {
		for listed := ListedUnknown; listed <= ListedVoter; listed++ {
			for _, known := range bools {
				for _, wanted := range bools {
					for _, decided := range bools {
						for _, data := range bools {
							for _, runs := range bools {
								f(MemberFacts{Known: known, Wanted: wanted, Phase: phase, Listed: listed, Decided: decided, Data: data, Runs: runs})
							}
						}
					}
				}
			}
		}
	}
}

func TestNextMemberStep_always(t *testing.T) {
	allMemberFacts(func(f MemberFacts) {
		step := NextMemberStep(f)
		wrong := map[string]bool{
			"there is no step":                               step == MemberStepUnset,
			"data is moved while etcd may use it":            step == MoveData && f.Runs && f.Phase != WithoutMember,
			"data is moved while the member may vote":        step == MoveData && f.Listed != NotListed && f.Phase != WithoutMember,
			"a process ends while the member may vote":       step == StopMember && f.Listed != NotListed,
			"the node has no member, and the cluster does":   step == EndLeaving && f.Listed != NotListed,
			"data is left behind":                            step == EndLeaving && (f.Data || f.Runs),
			"a member is added over other data":              step == AddLearner && (f.Data || f.Runs),
			"a voter without data begins again":              step == StartMember && !f.Data && f.Listed != ListedLearner,
			"a removal begins, and the roles are unknown":    step == BeginLeaving && !f.Known && f.Phase == WorkingMember,
			"a removal that was decided is forgotten":        f.Decided && f.Phase == LeavingMember && (step == EndAdding || step == BeginAdding),
			"a member that is being removed counts on votes": f.Decided && (step == EndAdding || step == AwaitVote),
		}
		for what, is := range wrong {
			if is {
				t.Errorf("%s: %+v: %s", what, f, step)
			}
		}
	})
}

// The ways that go without trouble, step by step.
func TestNextMemberStep(t *testing.T) {
	for _, tc := range []struct {
		facts MemberFacts
		want  MemberStep
	}{
		{MemberFacts{Known: true, Wanted: true, Phase: WithoutMember, Listed: NotListed}, BeginAdding},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember}, AskMembers},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: NotListed}, AddLearner},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: ListedLearner}, StartMember},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: ListedLearner, Data: true, Runs: true}, AwaitVote},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: ListedVoter, Data: true, Runs: true}, EndAdding},
		// An eviction that was decided may be carried out when the member votes.
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: ListedLearner, Data: true, Runs: true, Decided: true}, BeginLeaving},
		{MemberFacts{Known: true, Wanted: true, Phase: AddingMember, Listed: ListedVoter, Data: true, Runs: true, Decided: true}, BeginLeaving},
		{MemberFacts{Known: true, Wanted: true, Phase: WorkingMember, Listed: ListedVoter, Data: true, Runs: true}, MemberAsIs},
		{MemberFacts{Phase: WorkingMember, Data: true, Runs: true}, MemberAsIs},
		{MemberFacts{Known: true, Phase: WorkingMember, Listed: ListedVoter, Data: true, Runs: true}, BeginLeaving},
		{MemberFacts{Known: true, Phase: LeavingMember, Listed: ListedVoter, Data: true, Runs: true}, RemoveMember},
		{MemberFacts{Known: true, Phase: LeavingMember, Listed: NotListed, Data: true, Runs: true}, StopMember},
		{MemberFacts{Known: true, Phase: LeavingMember, Listed: NotListed, Data: true}, MoveData},
		{MemberFacts{Known: true, Phase: LeavingMember, Listed: NotListed}, EndLeaving},
		{MemberFacts{Known: true, Phase: WithoutMember, Listed: NotListed}, MemberAsIs},
		// A power failure of all nodes: this one is needed for the majority.
		{MemberFacts{Phase: LeavingMember, Data: true}, StartMember},
		{MemberFacts{Phase: AddingMember, Data: true}, StartMember},
		{MemberFacts{Phase: LeavingMember, Data: true, Runs: true, Listed: ListedVoter}, MemberAsIs},
		// The role is given back.
		{MemberFacts{Known: true, Wanted: true, Phase: LeavingMember, Listed: ListedVoter, Data: true, Runs: true}, EndAdding},
		{MemberFacts{Known: true, Wanted: true, Phase: LeavingMember, Listed: ListedVoter, Data: true, Runs: true, Decided: true}, RemoveMember},
		{MemberFacts{Known: true, Wanted: true, Phase: LeavingMember, Listed: ListedLearner, Data: true, Runs: true}, BeginAdding},
	} {
		if got := NextMemberStep(tc.facts); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.facts, got, tc.want)
		}
	}
	if got := MemberStep(-1).String(); got != "Unset" {
		t.Error(got)
	}
}

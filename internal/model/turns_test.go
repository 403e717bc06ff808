package model

import "testing"

func TestTurns(t *testing.T) {
	worlds := []TurnsConfig{
		{Nodes: 2, Limit: 1, Faults: 2, Cordons: 1, Forces: 1},
		{Nodes: 2, Limit: 1, Faults: 1, Cordons: 1, Overrides: 1},
		{Nodes: 3, Limit: 1, Faults: 1, Cordons: 1},
		{Nodes: 3, Limit: 1, Faults: 1, Leaves: 1},
		{Nodes: 2, Limit: 1, Faults: 2, Cordons: 1, Expires: 1},
		{Nodes: 2, Limit: 1, Faults: 1, Cordons: 1, Forces: 1, Kills: 2},
	}
	if *full {
		worlds = append(worlds,
			TurnsConfig{Nodes: 3, Limit: 1, Faults: 1, Overrides: 1},
			TurnsConfig{Nodes: 3, Limit: 1, Faults: 1, Cordons: 1, Kills: 1},
			TurnsConfig{Nodes: 3, Limit: 1, Members: true, Faults: 1, Cordons: 1, Forces: 1},
			TurnsConfig{Nodes: 3, Limit: 2, Faults: 1, Cordons: 1, Forces: 1})
	}
	for _, cfg := range worlds {
		t.Run(cfg.String(), func(t *testing.T) {
			if raced && cfg.Nodes > 2 {
				t.Skip("takes too long under the race detector")
			}
			r := CheckTurns(&cfg)
			t.Logf("%d states, %d transitions", r.States, r.Transitions)
			if r.Violation != nil {
				t.Errorf("\n%s", r.Violation)
			}
			if !r.Taken {
				t.Error("no turn was taken")
			}
		})
	}
}

// TestTurnsMutations turns off each safeguard and expects the search to find a violation.
func TestTurnsMutations(t *testing.T) {
	for _, m := range []struct {
		name, why, invariant string
		cfg                  TurnsConfig
	}{
		{
			"turn-guarded", "A node would take the turn from what it read before another one broke and took it.",
			"FewTurns", TurnsConfig{Nodes: 3, Limit: 1, Faults: 1, Off: turnGuarded},
		},
		{
			"dead-keeps", "The turn of a dead node would be given to the next one.",
			"FewTurns", TurnsConfig{Nodes: 3, Limit: 1, Faults: 1, Off: deadKeeps},
		},
		{
			"others-serve", "A turn would take the last node in service.",
			"LeavesOne", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Off: othersServe},
		},
		{
			"majority-left", "A turn would take the majority from etcd.",
			"LeavesMajority", TurnsConfig{Nodes: 3, Limit: 1, Members: true, Faults: 1, Off: majorityLeft},
		},
		{
			"service-awaited", "The next node would get the turn while this one does not serve yet.",
			"ServesAgain", TurnsConfig{Nodes: 2, Limit: 1, Off: serviceAwaited},
		},
		{
			"passed-over", "A node would wait for one that is broken, and that one behind it for its turn to be repaired.",
			"EachInTurn", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Off: passedOver},
		},
		{
			"queue-ordered", "A node would get the turn again and again while another one waits.",
			"FirstComes", TurnsConfig{Nodes: 2, Limit: 1, Off: queueOrdered},
		},
		{
			"override-ends", "A turn would end while its node serves by an override alone, and the next one would leave service as well.",
			"ServesAgain", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Overrides: 1, Off: overrideEnds},
		},
		{
			"removed-ends", "Nodes would wait for the turn of one that has left for good.",
			"EachInTurn", TurnsConfig{Nodes: 3, Limit: 1, Faults: 1, Leaves: 1, Off: removedEnds},
		},
		{
			"role-ends", "Nodes would wait until one serves that has no controller role.",
			"EachInTurn", TurnsConfig{Nodes: 3, Limit: 1, Leaves: 1, Off: roleEnds},
		},
		{
			"turn-keeps-record", "The cordon of a turn would end with the record while its work goes on, and the next node would leave service as well.",
			"ServesAgain", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Expires: 1, Off: turnKeepsRecord},
		},
		{
			"patience-ends", "Nodes that are broken would wait for each other, and people could repair none in a turn.",
			"EachInTurn", TurnsConfig{Nodes: 2, Limit: 1, Faults: 2, Off: turnPatienceEnds},
		},
		{
			"patience-of-broken", "A node that serves would not wait for one that is broken.",
			"LeavesOne", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Off: turnPatienceOfBroken},
		},
		{
			"reread", "A command that was paused before it ran would run after people have ended its turn, and another node have one.",
			"OutAtWork", TurnsConfig{Nodes: 2, Limit: 1, Forces: 1, Off: turnReread},
		},
		{
			"uncordoned-stops", "A command would run after people have ended the cordon of its turn, while its node serves.",
			"OutAtWork", TurnsConfig{Nodes: 2, Limit: 1, Cordons: 1, Off: uncordonedStops},
		},
		{
			"others-asked-again", "A command would stop the second kube-apiserver after another node has died since its turn was taken.",
			"OthersServe", TurnsConfig{Nodes: 2, Limit: 1, Faults: 1, Off: othersAskedAgain},
		},
		{
			"running-kept", "People would return a node to service, and end its turn, while its command runs.",
			"OutAtWork", TurnsConfig{Nodes: 2, Limit: 1, Off: runningKept},
		},
		{
			"orphan-ends", "Nodes would wait for the turn of a command that was killed when its work was done.",
			"EachInTurn", TurnsConfig{Nodes: 2, Limit: 1, Kills: 1, Off: orphanEnds},
		},
		{
			"silence-noticed", "Nodes would wait for the turn of a command that was killed, and no sidecar would say so.",
			"EachInTurn", TurnsConfig{Nodes: 2, Limit: 1, Kills: 1, Off: silenceNoticed},
		},
		{
			"cordon-stays", "A node would serve in the middle of its work, once the time of the cordon that people wrote before is over.",
			"OutAtWork", TurnsConfig{Nodes: 2, Limit: 1, Cordons: 1, Off: cordonStays},
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			r := CheckTurns(&m.cfg)
			if r.Violation == nil || r.Violation.Invariant != m.invariant {
				t.Fatalf("got %v in %d states, want a violation of %s: %s", r.Violation, r.States, m.invariant, m.why)
			}
			wantGolden(t, "turns-"+m.name+".txt", "# "+m.why+"\n# Found in: "+m.cfg.String()+"\n\n"+r.Violation.String())
			m.cfg.Off = 0
			if r := CheckTurns(&m.cfg); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}

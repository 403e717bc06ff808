package model

import "testing"

func TestTurnsOfServices(t *testing.T) {
	worlds := []ServiceTurnsConfig{
		{Nodes: 2, Bad: true, Breaks: 2, Offs: 1, Repairs: 1, Forces: 1},
		{Nodes: 3, Bad: true, Fine: true},
		{Nodes: 3, Bad: true, Breaks: 1, Repairs: 1},
		{Nodes: 3, Bad: true, Leaves: 1},
	}
	if *full {
		worlds = append(worlds,
			ServiceTurnsConfig{Nodes: 2, Breaks: 1, Offs: 1, Cordons: 1},
			ServiceTurnsConfig{Nodes: 2, Bad: true, Breaks: 1, Cordons: 1, Repairs: 1, Fine: true},
			ServiceTurnsConfig{Nodes: 3, Bad: true, Breaks: 3},
			ServiceTurnsConfig{Nodes: 3, Bad: true, Offs: 1, Repairs: 1, Forces: 1},
			ServiceTurnsConfig{Nodes: 3, Bad: true, Breaks: 1, Cordons: 1},
			ServiceTurnsConfig{Nodes: 3, Bad: true, Breaks: 1, Fine: true})
	}
	for _, cfg := range worlds {
		t.Run(cfg.String(), func(t *testing.T) {
			if raced && cfg.Nodes > 2 {
				t.Skip("takes too long under the race detector")
			}
			r := CheckServiceTurns(&cfg)
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

// TestTurnsOfServicesMutations turns off each safeguard and expects the search to find a violation.
func TestTurnsOfServicesMutations(t *testing.T) {
	for _, m := range []struct {
		name, why, invariant string
		cfg                  ServiceTurnsConfig
	}{
		{
			"closed-drains", "A node would see its gate closed for its turn before it knows the turn, and stop a service that clients still use.",
			"DrainsFirst", ServiceTurnsConfig{Nodes: 2, Fine: true, Off: closedDrains},
		},
		{
			"serving-waits", "A node would stop a service that clients use as soon as its file changes.",
			"DrainsFirst", ServiceTurnsConfig{Nodes: 2, Off: servingWaits},
		},
		{
			"others-waited-for", "A node would stop the last service that serves while another one is broken.",
			"LeavesOne", ServiceTurnsConfig{Nodes: 2, Breaks: 1, Off: othersWaitedFor},
		},
		{
			"others-asked", "A node would stop its service after another node has stopped serving since the turn was taken.",
			"OthersServe", ServiceTurnsConfig{Nodes: 2, Breaks: 1, Off: othersAsked},
		},
		{
			"readiness-awaited", "A change that never becomes ready would reach the next node.",
			"ServesAgain", ServiceTurnsConfig{Nodes: 2, Bad: true, Off: readinessAwaited},
		},
		{
			"gate-withheld", "The file would change again at the end of the turn, and the gate would open before the service is ready.",
			"OpenServes", ServiceTurnsConfig{Nodes: 2, Repairs: 1, Off: gateWithheld},
		},
		{
			"patience-ends", "Nodes whose services broke would wait for each other, and the repair would reach none.",
			"EachChanges", ServiceTurnsConfig{Nodes: 2, Breaks: 2, Off: patienceEnds},
		},
		{
			"patience-of-broken", "A node that serves would not wait for one that is broken.",
			"LeavesOne", ServiceTurnsConfig{Nodes: 2, Breaks: 1, Off: patienceOfBroken},
		},
		{
			"given-back", "People would end the cordon of a turn before the service stops, and it would never stop.",
			"EachChanges", ServiceTurnsConfig{Nodes: 2, Cordons: 1, Off: givenBack},
		},
		{
			"role-finishes", "Nodes would wait for the turn of one whose services will not start again.",
			"EachChanges", ServiceTurnsConfig{Nodes: 3, Leaves: 1, Off: roleFinishes},
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			r := CheckServiceTurns(&m.cfg)
			if r.Violation == nil {
				t.Fatalf("got no violation in %d states, want one: %s", r.States, m.why)
			}
			if r.Violation.Invariant != m.invariant {
				t.Errorf("got a violation of %s, want %s", r.Violation.Invariant, m.invariant)
			}
			wantGolden(t, "serviceturns-"+m.name+".txt", "# "+m.why+"\n# Found in: "+m.cfg.String()+"\n\n"+r.Violation.String())
			m.cfg.Off = 0
			if r := CheckServiceTurns(&m.cfg); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}

package model

import "testing"

func TestRotation(t *testing.T) {
	worlds := []RotationConfig{{Nodes: 1, Faults: 2}, {Nodes: 2, Faults: 2, Removals: 1}, {Nodes: 3, Faults: 1, Removals: 1}}
	if *full {
		worlds = append(worlds, RotationConfig{Nodes: 3, Faults: 2, Removals: 2})
	}
	for _, cfg := range worlds {
		t.Run(cfg.String(), func(t *testing.T) {
			if raced && cfg.Nodes > 2 {
				t.Skip("takes too long under the race detector")
			}
			r := CheckRotation(&cfg)
			t.Logf("%d states, %d transitions", r.States, r.Transitions)
			if r.Violation != nil {
				t.Errorf("\n%s", r.Violation)
			}
			if !r.Ended {
				t.Error("no rotation has ended")
			}
		})
	}
}

// TestRotationMutations turns off each safeguard and expects the search to find a violation.
func TestRotationMutations(t *testing.T) {
	for _, m := range []struct {
		name, why, invariant string
		cfg                  RotationConfig
	}{
		{
			"trust-awaited", "A node that does not trust the new CA yet would refuse the nodes that use it.",
			"Trusted", RotationConfig{Nodes: 2, Off: trustAwaited},
		},
		{
			"use-awaited", "A node that still uses a certificate of the old CA would be refused by those that dropped it.",
			"Trusted", RotationConfig{Nodes: 2, Off: useAwaited},
		},
		{
			"off-awaited", "A node that was off would come back with a CA that all others have dropped.",
			"Trusted", RotationConfig{Nodes: 2, Faults: 1, Off: offAwaited},
		},
		{
			"turns-taken", "Two of three members that restart at the same moment are the majority.",
			"OneAtATime", RotationConfig{Nodes: 3, Off: turnsTaken},
		},
		{
			"lost-keys", "A node that was removed after it had received the new key could sign for good.",
			"Dropped", RotationConfig{Nodes: 2, Faults: 1, Removals: 1, Off: lostKeysCount},
		},
		{
			"keys-awaited", "With the only node that has the new key, the cluster would lose its CA.",
			"Signed", RotationConfig{Nodes: 2, Off: keysAwaited},
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			r := CheckRotation(&m.cfg)
			if r.Violation == nil {
				t.Fatalf("got no violation in %d states, want one: %s", r.States, m.why)
			}
			if r.Violation.Invariant != m.invariant {
				t.Errorf("got a violation of %s, want %s", r.Violation.Invariant, m.invariant)
			}
			wantGolden(t, "rotation-"+m.name+".txt", "# "+m.why+"\n# Found in: "+m.cfg.String()+"\n\n"+r.Violation.String())
			m.cfg.Off = 0
			if r := CheckRotation(&m.cfg); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}

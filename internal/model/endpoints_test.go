package model

import "testing"

func endpointsOf(nodes, changes int) EndpointsConfig {
	return EndpointsConfig{Nodes: nodes, Changes: changes}
}

func (c EndpointsConfig) restored(n int) EndpointsConfig  { c.Restores = n; return c }
func (c EndpointsConfig) restarted(n int) EndpointsConfig { c.Restarts = n; return c }
func (c EndpointsConfig) outside(n int) EndpointsConfig   { c.Outside = n; return c }
func (c EndpointsConfig) reconciled(pauses int) EndpointsConfig {
	c.Reconciler, c.Pauses = true, pauses
	return c
}
func (c EndpointsConfig) stopped(n int) EndpointsConfig                  { c.Stops = n; return c }
func (c EndpointsConfig) strangers(n int) EndpointsConfig                { c.Strangers = n; return c }
func (c EndpointsConfig) without(off endpointsSafeguard) EndpointsConfig { c.Off = off; return c }
func (c EndpointsConfig) asking(name string) EndpointsConfig             { c.Only = name; return c }

func TestEndpoints(t *testing.T) {
	worlds := []EndpointsConfig{
		endpointsOf(2, 3).restored(1), endpointsOf(3, 2), endpointsOf(2, 3).outside(1), endpointsOf(2, 1).reconciled(1),
		endpointsOf(2, 1).strangers(2).restarted(1), endpointsOf(2, 3).stopped(1).restarted(1),
	}
	if *full {
		worlds = append(worlds, endpointsOf(2, 4).restored(1).restarted(1), endpointsOf(2, 1).reconciled(2).restarted(1), endpointsOf(2, 2).outside(1).reconciled(1),
			endpointsOf(2, 1).strangers(3), endpointsOf(2, 1).strangers(2).restored(1).restarted(1), endpointsOf(3, 0).strangers(1), endpointsOf(2, 0).strangers(1).reconciled(1))
	}
	for _, cfg := range worlds {
		t.Run(cfg.String(), func(t *testing.T) {
			t.Parallel()
			if raced && (cfg.Nodes > 2 || cfg.Restores > 0) {
				t.Skip("takes too long under the race detector")
			}
			r := CheckEndpoints(&cfg)
			t.Logf("%d states, %d transitions", r.States, r.Transitions)
			if r.Violation != nil {
				t.Errorf("\n%s", r.Violation)
			}
		})
	}
}

type endpointsMutation struct {
	name string
	why  string // the safeguard exists
	cfg  EndpointsConfig
}

func endpointsMutations() []endpointsMutation {
	return []endpointsMutation{
		{
			"object-first", "A snapshot that is older than what the Service has by now must not replace it.",
			endpointsOf(2, 2).without(objectFirst).asking("NotOlder"),
		},
		{
			"object-unchanged", "A request of a sidecar that was paused may land after that of another one.",
			endpointsOf(2, 2).without(objectUnchanged).asking("NotOlder"),
		},
		{
			"last-stays", "If all gates close, or all presences end, clients would get no answer at all.",
			endpointsOf(2, 2).without(lastStays),
		},
		{
			"back-counts", "After a restore, the annotation has a revision that the store reaches late or never.",
			endpointsOf(2, 2).restored(1).without(backCounts),
		},
		{
			"ready-only", "A node whose gate is closed must get no requests.",
			endpointsOf(2, 2).outside(1).without(readyOnly).asking("Published"),
		},
		{
			"all-take-part", "While the Service is turned on node by node, a kube-apiserver may still write it.",
			endpointsOf(2, 1).outside(1).without(allTakePart).asking("Yields"),
		},
		{
			"pause-after-overwrite", "A kube-apiserver that was not turned off would be fought for ever.",
			endpointsOf(2, 0).reconciled(0).without(pauseAfterOverwrite).asking("Yields"),
		},
		{
			"first-repairs", "A client that writes once, and claims to be a kube-apiserver, would have the Service for a minute.",
			endpointsOf(2, 0).strangers(1).without(firstRepairs).asking("Follows"),
		},
		{
			"parent-decides", "Any client that may write the Service can set the annotation, and would freeze it for ever.",
			endpointsOf(2, 1).strangers(1).without(parentDecides).asking("Follows"),
		},
		{
			"leaves-first", "Clients of the Service get refused connections from a kube-apiserver that stops before its address has left.",
			endpointsOf(2, 1).stopped(1).without(leavesFirst).asking("Leaves"),
		},
		{
			"turn-taken", "If it were the turn of a node that has stopped, every change would wait for it.",
			endpointsOf(3, 2).stopped(1).without(turnTaken).asking("Follows"),
		},
	}
}

// TestEndpointsMutations turns off each safeguard and expects the search to find a
// violation, and none with the safeguard on.
func TestEndpointsMutations(t *testing.T) {
	for _, m := range endpointsMutations() {
		t.Run(m.name, func(t *testing.T) {
			r := CheckEndpoints(&m.cfg)
			if r.Violation == nil {
				t.Fatalf("got no violation in %d states, want one: %s", r.States, m.why)
			}
			wantGolden(t, "endpoints-"+m.name+".txt", "# "+m.why+"\n# Found in: "+m.cfg.String()+"\n\n"+r.Violation.String())
			m.cfg.Off, m.cfg.Only = 0, ""
			if r := CheckEndpoints(&m.cfg); r.Violation != nil {
				t.Errorf("got a violation with the safeguard on:\n%s", r.Violation)
			}
		})
	}
}

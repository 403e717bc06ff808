package judge

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// turn begins a turn of a node, and turnEnds ends it.
func (s *story) turn(node string) *story { return s.add(Event{Turn: &Turn{Node: node}}) }
func (s *story) turnEnds(node string) *story {
	return s.add(Event{Turn: &Turn{Node: node, Gone: true}})
}

// answer is an answer of the sidecar with the process 100.
func (s *story) answer(ready bool, reason protocol.Reason) *story {
	s.now += 10 * time.Millisecond
	s.probe("a", r1, ready, reason)
	s.Probes[len(s.Probes)-1].Sidecar = 100
	return s
}

// of gives the last moment of a service the generation of its file.
func (s *story) of(generation string) *story {
	s.Services[len(s.Services)-1].Generation = generation
	return s
}

// serving is a node a whose service with an old file has been ready for a while.
func serving() *story {
	return installed().roles(true, false).service("a", Started).of("1").service("a", Ready).of("1").later(time.Minute).answer(true, "")
}

// stops closes the gate for a while, and then stops the service for its change.
func (s *story) stops(after time.Duration, reason protocol.Reason) *story {
	for range 6 {
		s.answer(false, reason).later(after / 6)
	}
	return s.service("a", Stopping).of("1")
}

// starts starts the service with a new file.
func (s *story) starts() *story {
	return s.later(time.Second).service("a", Started).of("2").later(time.Second).service("a", Ready).of("2")
}

// TestTurns: each rule about turns finds its violation, and accepts legal histories beside that.
func TestTurns(t *testing.T) {
	const drain = 6 * time.Second
	in := func() *story { return serving().turn("a").stops(drain, protocol.Cordoned) }
	lateAnswer := func() *story { // sent before the gate closed
		s := serving().turn("a")
		s.answer(true, "")
		s.Probes[len(s.Probes)-1].Got += drain
		return s.stops(drain, protocol.Cordoned).starts()
	}
	young := installed().roles(true, false).service("a", Started).of("1").service("a", Ready).of("1").answer(true, "").service("a", Stopping).of("1").starts()
	checkAll(t, []safeguardTest{
		{"one after another", installed().turn("a").turnEnds("a").turn("b").turnEnds("b"), "", ""},
		{"one turn, written again", installed().turn("a").turn("a"), "", ""},
		{"two turns", installed().turn("a").turn("b"), FewTurns, "b takes a turn while a has one"},

		{"a change in a turn", in().starts().turnEnds("a"), "", ""},
		{"a change without a turn", serving().stops(drain, protocol.Cordoned).starts(), InTurn, "did not have the turn"},
		{"a change after a turn", serving().turn("a").turnEnds("a").later(time.Second).stops(drain, protocol.Cordoned).starts(), InTurn, "did not have the turn"},
		{"a change in the turn of another node", serving().turn("b").stops(drain, protocol.Cordoned).starts(), InTurn, "did not have the turn"},
		{"a change of a node that is out for another reason", serving().stops(drain, protocol.NotRegistered).starts(), "", ""},

		{"a change before clients have left", serving().turn("a").stops(time.Second, protocol.Cordoned).starts(), DrainsFirst, "its service stopped for its change"},
		{"a change behind an open gate", serving().service("a", Stopping).of("1").starts(), DrainsFirst, "its service stopped for its change"},
		{"an answer from before the turn that comes late", lateAnswer(), "", ""},
		{"a service that its sidecar did not know to be ready", young, "", ""},
		{"a service that is started again with the same file", serving().service("a", Stopping).of("1").service("a", Started).of("1"), "", ""},
		{"a service that stops with its sidecar", serving().service("a", Stopping).of("1"), "", ""},
		{"a service of a node that loses its role", serving().roles(false, false).service("a", Stopping).of("1").roles(true, false).starts(), "", ""},

		{"a turn that ends before the service starts", in().later(time.Second).turnEnds("a").starts(), ServesAgain, "the turn of a ended"},
		{"a turn that ends while no service starts", in().later(time.Second).service("a", Started).of("2").turnEnds("a").later(time.Second), ServesAgain, "never ready"},
		{"a turn that ends after the service was killed and started again",
			in().service("a", Started).of("2").service("a", Started).of("2").service("a", Ready).of("2").turnEnds("a"), "", ""},
		{"a turn that is kept", in().service("a", Started).of("2").later(time.Minute), "", ""},
		{"a turn whose node lost its role", in().service("a", Started).of("2").roles(false, false).turnEnds("a"), "", ""},
	})
}

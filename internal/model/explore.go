package model

import "slices"

// Found is the result of a search through one of the small worlds.
type Found struct {
	States, Transitions int
	Violation           *Violation // the first one; nil: none
}

// smallWorld is a world whose states are small enough to keep them all.
type smallWorld[S any] struct {
	first        S
	moves, nodes int // each node may make each move
	// move changes next, which is a copy of before, by a move of a node. An empty text: the move is not
	// possible. A name is that of the invariant that it breaks.
	move func(before, next *S, move, actor int) (text, name, why string)
	add  func(*S) bool // adds a state to those that were reached, and reports whether it is new
	// future returns the invariant that does not hold from a new state on, and why. An empty name: all hold.
	future func(*S) (name, why string)
}

// arrival is how a state was reached.
type arrival struct {
	from int // the state before, by discovery
	text string
}

// exploring is a search through a world.
type exploring[S any] struct {
	smallWorld[S]
	states  []S
	origins []arrival
	found   Found
}

// explore visits every state of a world, breadth first. It stops at the first violation.
func explore[S any](w smallWorld[S]) Found {
	e := &exploring[S]{smallWorld: w}
	e.visit(w.first, 0, "", "", "")
	for at := 0; at < len(e.states) && e.found.Violation == nil; at++ {
		e.expand(at)
	}
	e.found.States = len(e.states)
	return e.found
}

// expand makes every move that is possible in a state.
func (e *exploring[S]) expand(at int) {
	for m := range e.moves {
		for i := range e.nodes {
			next := e.states[at]
			text, name, why := e.move(&e.states[at], &next, m, i)
			if text == "" {
				continue
			}
			e.found.Transitions++
			if e.visit(next, at, text, name, why); e.found.Violation != nil {
				return
			}
		}
	}
}

// visit keeps a state that is new, and checks its future. A name is the invariant that the move broke.
func (e *exploring[S]) visit(next S, from int, text, name, why string) {
	if name == "" {
		if !e.add(&next) {
			return
		}
		name, why = e.future(&next)
	}
	if name != "" {
		e.found.Violation = &Violation{Invariant: name, Why: why, Story: storyTo(e.origins, from, text)}
		return
	}
	e.states, e.origins = append(e.states, next), append(e.origins, arrival{from, text})
}

// reached returns an add for states that can be compared.
func reached[S comparable]() func(*S) bool {
	seen := map[S]bool{}
	return func(s *S) bool {
		if seen[*s] {
			return false
		}
		seen[*s] = true
		return true
	}
}

// storyTo returns the moves that lead to a state, and the last one.
func storyTo(origins []arrival, from int, last string) []string {
	lines := []string{last}
	for at := from; at != 0; at = origins[at].from {
		lines = append(lines, origins[at].text)
	}
	slices.Reverse(lines)
	return lines
}

// countOf counts the nodes for which a condition is true.
func countOf[N any](nodes []N, is func(*N) bool) (n int) {
	for i := range nodes {
		if is(&nodes[i]) {
			n++
		}
	}
	return n
}

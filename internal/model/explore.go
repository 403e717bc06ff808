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

// explore visits every state of a world, breadth first. It stops at the first violation.
func explore[S any](w smallWorld[S]) (r Found) {
	states, origins := []S{w.first}, []arrival{{}}
	defer func() { r.States = len(states) }()
	violated := func(from int, text, name, why string) Found {
		r.Violation = &Violation{Invariant: name, Why: why, Story: storyTo(origins, from, text)}
		return r
	}
	w.add(&w.first)
	if name, why := w.future(&w.first); name != "" {
		return violated(0, "", name, why)
	}
	for at := 0; at < len(states); at++ {
		for m := range w.moves {
			for i := range w.nodes {
				next := states[at]
				text, name, why := w.move(&states[at], &next, m, i)
				if text == "" {
					continue
				}
				r.Transitions++
				isNew := name == "" && w.add(&next)
				if isNew {
					name, why = w.future(&next)
				}
				if name != "" {
					return violated(at, text, name, why)
				}
				if isNew {
					states, origins = append(states, next), append(origins, arrival{at, text})
				}
			}
		}
	}
	return r
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

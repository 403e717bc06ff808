package model

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Result is the result of a search.
type Result struct {
	Config      *Config
	States      int
	Transitions int
	Depth       int
	Counts      counts
	Unfollowed  int // moves whose result does not fit into a state; the states after them were not visited
	Truncated   bool
	Violation   *Violation // the first one; nil: none
}

// Violation is a broken invariant, with the shortest story that leads to it.
type Violation struct {
	Invariant string
	Why       string
	Story     []string
}

// String prints the violation and its story, numbered.
func (v *Violation) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", v.Invariant, v.Why)
	for i, line := range v.Story {
		fmt.Fprintf(&out, "%3d. %s\n", i+1, line)
	}
	return out.String()
}

// counts shows how far a search reached. A search that reaches little proves little.
type counts struct {
	steps    map[stepKind]int
	verdicts map[protocol.Reason]int
	moves    [moveKinds]int
	ended    map[string]int    // where runs end, by the cause
	deaths   map[deathStep]int // of leaders that bring objects back
}

func newCounts() counts {
	return counts{steps: map[stepKind]int{}, verdicts: map[protocol.Reason]int{}, ended: map[string]int{}, deaths: map[deathStep]int{}}
}

func (c *counts) step(s *protocol.Step) { c.steps[stepKind{s.Rule, s.Kind}]++ }

type stepKind struct {
	rule protocol.Rule
	kind protocol.StepKind
}

func (c *counts) verdict(r protocol.Reason) { c.verdicts[r]++ }

// merge adds the counts of another search.
func (c *counts) merge(o counts) {
	for step, n := range o.steps {
		c.steps[step] += n
	}
	for reason, n := range o.verdicts {
		c.verdicts[reason] += n
	}
	for what, n := range o.ended {
		c.ended[what] += n
	}
	for step, n := range o.deaths {
		c.deaths[step] += n
	}
	for i, n := range o.moves {
		c.moves[i] += n
	}
}

// String prints the counts in a fixed order.
func (c *counts) String() string {
	var lines []string
	for step, n := range c.steps {
		lines = append(lines, fmt.Sprintf("step %s %s: %d", step.rule, step.kind, n))
	}
	for name, n := range c.verdicts {
		lines = append(lines, fmt.Sprintf("verdict %s: %d", name, n))
	}
	for what, n := range c.ended {
		lines = append(lines, fmt.Sprintf("ends %s: %d", what, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// search is a breadth-first search through all states of a configuration.
type search struct {
	cfg        *Config
	moves      []move
	invariants []invariant
	seed       maphash.Seed
	seen       fingerprints
	origins    []origin // by discovery
	result     Result
	limit      int // of states; 0: none
	memo       *memo
	progress   *progress // nil: not asked
	tracer     tracer    // nil: not asked

	next state // the one that a move is tried on
	now  transition
}

// origin is how a state was reached.
type origin struct {
	from uint32 // the state before, by discovery
	move uint16
}

// queued is a state of the current depth.
type queued struct {
	state state
	index uint32
}

// Check visits every state that cfg can reach, at most limit of them (0: all). It
// stops at the first violation.
func Check(cfg *Config, limit int) Result { return newSearch(cfg, limit).run() }

func newSearch(cfg *Config, limit int) *search {
	return &search{
		cfg: cfg, moves: moves(cfg), invariants: asked(cfg), seed: maphash.MakeSeed(), limit: limit, memo: newMemo(),
		result: Result{Config: cfg, Counts: newCounts()},
	}
}

func (s *search) run() Result {
	st := s.root()
	s.seen.add(s.fingerprint(&st))
	s.origins = append(s.origins, origin{})
	layer := []queued{{state: st}}
	for len(layer) > 0 && s.result.Violation == nil && !s.result.Truncated {
		layer = s.deepen(layer)
		s.result.Depth++
	}
	s.result.States = len(s.origins)
	return s.result
}

// asked returns the invariants that a configuration checks.
func asked(cfg *Config) []invariant {
	if len(cfg.Only) == 0 {
		return invariants()
	}
	return slices.DeleteFunc(invariants(), func(i invariant) bool { return !slices.Contains(cfg.Only, i.Name) })
}

func (s *search) root() state {
	st := initialState(s.cfg)
	t := s.transition(&st)
	t.canonical()
	return st
}

func (s *search) transition(st *state) transition {
	return transition{cfg: s.cfg, state: st, count: &s.result.Counts, memo: s.memo, tracer: s.tracer}
}

// deepen visits all states that are one move further.
func (s *search) deepen(layer []queued) (next []queued) {
	for i := range layer {
		for k := range s.moves {
			if s.try(&layer[i], k) {
				next = append(next, queued{state: s.next, index: uint32(len(s.origins) - 1)})
			}
			if s.result.Violation != nil {
				return nil
			}
		}
		if s.limit > 0 && len(s.origins) >= s.limit {
			s.result.Truncated = true
			return nil
		}
	}
	return next
}

// try makes a move, if it is possible, and reports whether it led to a new state.
func (s *search) try(at *queued, k int) bool {
	if !s.moves[k].possible(&at.state) {
		return false
	}
	s.next = at.state
	s.now = s.transition(&s.next)
	if !s.now.apply(s.moves[k]) {
		return false
	}
	if s.now.event.noRoom {
		s.result.Unfollowed++
		return false
	}
	return s.arrive(at.index, k)
}

// arrive checks the transition that was just made, and reports whether it led to
// a new state.
func (s *search) arrive(from uint32, k int) bool {
	s.result.Transitions++
	s.result.Counts.moves[s.moves[k].kind]++
	if name, _ := s.broken(&s.now); name != "" {
		s.violated(name, s.path(from, k))
		return false
	}
	s.now.canonical()
	if !s.seen.add(s.fingerprint(&s.next)) {
		return false
	}
	s.origins = append(s.origins, origin{from: from, move: uint16(k)})
	if s.progress == nil {
		return true
	}
	st := s.next
	if why := cmp.Or(s.progress.ends(&st), s.progress.waysFrom(&st)); why != "" {
		slices.Reverse(s.progress.run)
		s.violated("Progress", append(s.path(from, k), s.progress.run...))
		s.result.Violation.Why = why
	}
	return true
}

// broken returns the first invariant that does not hold.
func (s *search) broken(t *transition) (name, why string) {
	for _, inv := range s.invariants {
		if why := inv.Broken(t); why != "" {
			return inv.Name, why
		}
	}
	return "", ""
}

// path returns the moves that led to a state, and one more.
func (s *search) path(to uint32, last int) []uint16 {
	path := []uint16{uint16(last)}
	for at := to; at != 0; at = s.origins[at].from {
		path = append(path, s.origins[at].move)
	}
	slices.Reverse(path)
	return path
}

// violated records a violation with its story.
func (s *search) violated(name string, path []uint16) {
	lines, why := s.replay(path)
	s.result.Violation = &Violation{Invariant: name, Why: why, Story: lines}
}

// fingerprint is a hash of a canonical state. It is never zero.
func (s *search) fingerprint(st *state) uint64 {
	return cmp.Or(maphash.Comparable(s.seed, *st), 1)
}

// fingerprints is a set of hashes that are not zero.
type fingerprints struct {
	slots []uint64
	used  int
}

// add reports whether h was missing from the set.
func (f *fingerprints) add(h uint64) bool {
	if 4*f.used >= 3*len(f.slots) {
		f.grow()
	}
	mask := uint64(len(f.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch f.slots[i] {
		case h:
			return false
		case 0:
			f.slots[i] = h
			f.used++
			return true
		}
	}
}

func (f *fingerprints) grow() {
	old := f.slots
	f.slots, f.used = make([]uint64, max(1024, 2*len(old))), 0
	for _, h := range old {
		if h != 0 {
			f.add(h)
		}
	}
}

package model

import "math/rand/v2"

// Walk is a random walk through a world that is too large to be searched.
type Walk struct {
	Seed uint64
	Path []int // the moves, as numbers
}

// RandomWalk makes up to steps moves, chosen by the seed, and checks the
// invariants after each. The same seed gives the same walk.
func RandomWalk(cfg *Config, seed uint64, steps int) (Result, Walk) {
	s := newSearch(cfg, 0)
	walk := Walk{Seed: seed}
	random := rand.New(rand.NewPCG(seed, 0))
	st := s.root()
	for range steps {
		k, ok := s.randomMove(&st, random)
		if !ok {
			break
		}
		walk.Path = append(walk.Path, k)
		s.result.Transitions++
		if s.result.Violation = s.violationOf(walk); s.result.Violation != nil {
			break
		}
		t := s.transition(&st)
		t.canonical()
	}
	s.result.States = len(walk.Path)
	return s.result, walk
}

// randomMove makes one possible move and returns its number. Faults and actions
// of administrators are rare, unless no other move is possible.
func (s *search) randomMove(st *state, random *rand.Rand) (int, bool) {
	order := random.Perm(len(s.moves))
	for _, patient := range []bool{true, false} {
		for _, k := range order {
			rare := s.moves[k].isFault() || s.moves[k].isChange()
			if patient && rare && random.IntN(rareness*len(s.moves)) != 0 {
				continue
			}
			if s.attempt(st, k) {
				return k, true
			}
		}
	}
	return 0, false
}

// attempt makes a move if it is possible.
func (s *search) attempt(st *state, k int) bool {
	next := *st
	s.now = s.transition(&next)
	if !s.moves[k].possible(&next) || !s.now.apply(s.moves[k]) {
		return false
	}
	if s.now.event.noRoom {
		s.result.Unfollowed++
		return false
	}
	*st, s.now.state = next, st
	s.result.Counts.moves[s.moves[k].kind]++
	return true
}

// rareness is how much rarer faults and administrators are, all together, than
// all other moves.
const rareness = 2

// violationOf returns the violation of the last move of a walk. nil: there is
// none.
func (s *search) violationOf(walk Walk) *Violation {
	name, _ := s.broken(&s.now)
	if name == "" {
		return nil
	}
	path := make([]uint16, 0, len(walk.Path))
	for _, k := range walk.Path {
		path = append(path, uint16(k))
	}
	lines, why := s.replay(path)
	return &Violation{Invariant: name, Why: why, Story: lines}
}

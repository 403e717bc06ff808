package model

import "math/rand/v2"

// Walk is a random walk through a world that is too large to be searched.
type Walk struct {
	Seed uint64
	Path []int // the moves, as numbers
}

// RandomWalk takes up to steps moves, chosen by the seed, and checks the
// invariants after each. The same seed takes the same walk.
func RandomWalk(cfg *Config, seed uint64, steps int) (Result, Walk) {
	s := newSearch(cfg, 0)
	walk := Walk{Seed: seed}
	random := rand.New(rand.NewPCG(seed, 0))
	w := s.root()
	for range steps {
		k, ok := s.stride(&w, random)
		if !ok {
			break
		}
		walk.Path = append(walk.Path, k)
		s.result.Transitions++
		if s.result.Violation = s.strayed(walk); s.result.Violation != nil {
			break
		}
		t := s.turn(&w)
		t.canonical()
	}
	s.result.States = len(walk.Path)
	return s.result, walk
}

// stride does one move that is possible, and reports which. Faults and people
// are rare, unless nothing else can happen.
func (s *search) stride(w *World, random *rand.Rand) (int, bool) {
	order := random.Perm(len(s.moves))
	for _, patient := range []bool{true, false} {
		for _, k := range order {
			rare := s.moves[k].isFault() || s.moves[k].isChange()
			if patient && rare && random.IntN(rareness*len(s.moves)) != 0 {
				continue
			}
			if s.tries(w, k) {
				return k, true
			}
		}
	}
	return 0, false
}

// tries does a move if it is possible.
func (s *search) tries(w *World, k int) bool {
	next := *w
	s.now = s.turn(&next)
	if !s.moves[k].possible(&next) || !s.now.apply(s.moves[k]) {
		return false
	}
	if s.now.event.bound {
		s.result.Unfollowed++
		return false
	}
	*w, s.now.w = next, w
	s.result.Counts.moves[s.moves[k].kind]++
	return true
}

// rareness is how much rarer all faults and people together are than what goes
// on by itself.
const rareness = 2

// strayed tells the walk if its last move broke an invariant.
func (s *search) strayed(walk Walk) *Violation {
	name, _ := s.broken(&s.now)
	if name == "" {
		return nil
	}
	path := make([]uint16, 0, len(walk.Path))
	for _, k := range walk.Path {
		path = append(path, uint16(k))
	}
	story, why := s.tell(path)
	return &Violation{Invariant: name, Why: why, Story: story}
}

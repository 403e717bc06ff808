package model

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// shells holds the leaders of a walk to the rules of package trace. A leader's
// memory before a move, and its actions in the move, must give its memory
// afterwards.
type shells struct {
	before state
	leads  map[uint8]*trace.Leader // by node
	events map[string]int
	err    error
}

func (s *shells) begin(before state) {
	s.before, s.leads, s.err = before, map[uint8]*trace.Leader{}, nil
}

func (s *shells) see(t *transition, l int, e trace.Event) {
	id := t.state.leaders[l].node
	lead := s.leads[id]
	if lead == nil {
		lead = &trace.Leader{Epoch: formerEpoch + int64(t.state.leaders[l].epoch)} // elected in this move
		for i := range s.before.leaders {
			if s.before.leaders[i].on && s.before.leaders[i].node == id {
				lead = t.cfg.traced(&s.before.leaders[i])
			}
		}
		s.leads[id] = lead
	}
	s.events[e.Name()]++
	if err := lead.Apply(e); err != nil && s.err == nil {
		s.err = err
	}
}

// end compares the memories of the leaders with the state after a move.
func (s *shells) end(t *testing.T, cfg *Config, after *state) {
	t.Helper()
	if s.err != nil {
		t.Fatal(s.err)
	}
	for i := range after.leaders {
		lead := &after.leaders[i]
		if !lead.on {
			continue
		}
		got := s.leads[lead.node]
		if got == nil {
			was := slices.IndexFunc(s.before.leaders[:], func(l leader) bool { return l.on && l.node == lead.node })
			if was < 0 {
				continue
			}
			got = cfg.traced(&s.before.leaders[was])
		}
		want := cfg.traced(lead)
		for _, l := range []*trace.Leader{got, want} {
			slices.SortFunc(l.Mark.Entries, func(a, b protocol.Content) int { return slices.Compare([]byte(a.String()), []byte(b.String())) })
			if l.Job != nil {
				l.Job.Work.LeaderEpoch = 0 // epochs are renumbered when a leader ends
			}
		}
		if !reflect.DeepEqual(got.Mark, want.Mark) || got.Progress != want.Progress || got.Seen != want.Seen || !reflect.DeepEqual(got.Job, want.Job) {
			t.Fatalf("a leader of the model remembers\n%+v job %+v\nand what it did leaves\n%+v job %+v", want, want.Job, got, got.Job)
		}
	}
}

// TestShellsMoveAsTracesDo: the leaders of the model, in random walks, do nothing
// that the leaders that ship may not do, and remember the same.
func TestShellsMoveAsTracesDo(t *testing.T) {
	walks := 300
	if raced {
		walks = 3
	}
	s := &shells{events: map[string]int{}}
	for seed := range uint64(walks) {
		cfg := largeWorld(seed)
		walker := newSearch(cfg, 0)
		walker.tracer = s.see
		random := rand.New(rand.NewPCG(seed, 0))
		st := walker.root()
		for range 400 {
			if !s.step(t, walker, &st, random) {
				break
			}
		}
	}
	t.Log(s.events)
	for _, kind := range []string{"round", "begin", "end", "write", "resign"} {
		if s.events[kind] == 0 {
			t.Errorf("got %d events %q in %d walks", s.events[kind], kind, walks)
		}
	}
}

// step makes one random move.
func (s *shells) step(t *testing.T, walker *search, st *state, random *rand.Rand) bool {
	t.Helper()
	for _, k := range random.Perm(len(walker.moves)) {
		if walker.moves[k].isFault() && random.IntN(10) > 0 {
			continue
		}
		s.begin(*st)
		if !walker.attempt(st, k) {
			continue
		}
		s.end(t, walker.cfg, st)
		now := walker.transition(st)
		now.canonical()
		return true
	}
	return false
}

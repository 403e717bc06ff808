package model

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol"
)

// MembersResult is the result of a search through a world of members.
type MembersResult struct {
	States, Transitions int
	Steps               uint16     // a bit for each step that a node took
	Violation           *Violation // the first one; nil: none
}

// memberOrigin is how a state was reached.
type memberOrigin struct {
	from uint32 // the state before, by discovery
	text string
}

// storyTo returns the moves that lead to a state, and the last one.
func storyTo(origins []memberOrigin, from uint32, last string) []string {
	lines := []string{last}
	for at := from; at != 0; at = origins[at].from {
		lines = append(lines, origins[at].text)
	}
	slices.Reverse(lines)
	return lines
}

type memberSearch struct {
	cfg     *MembersConfig
	seed    maphash.Seed
	seen    fingerprints
	states  []memberState
	origins []memberOrigin
	result  MembersResult
}

// CheckMembers visits every state that cfg can reach. It stops at the first violation.
func CheckMembers(cfg *MembersConfig) MembersResult {
	s := &memberSearch{cfg: cfg, seed: maphash.MakeSeed()}
	s.add(initialMembers(cfg), 0, "")
	for at := 0; at < len(s.states) && s.result.Violation == nil; at++ {
		s.expand(uint32(at))
	}
	s.result.States = len(s.states)
	return s.result
}

// expand makes every move that is possible in a state.
func (s *memberSearch) expand(at uint32) {
	for m := range memberMove(memberMoves) {
		for i := range s.cfg.Nodes + s.cfg.Spare {
			next := s.states[at]
			name := next.nodes[i].name
			what := next.apply(s.cfg, m, i)
			if what == "" {
				continue
			}
			s.result.Transitions++
			s.result.Steps |= next.steps
			next.steps = 0
			text := fmt.Sprintf("n%d %s", name+1, what)
			if broken, why := brokenMembers(s.cfg, &s.states[at], &next); broken != "" {
				s.violated(broken, why, at, text)
				return
			}
			if s.add(next, at, text); s.result.Violation != nil {
				return
			}
		}
	}
}

// add keeps a state that is new, and checks that it can settle.
func (s *memberSearch) add(st memberState, from uint32, text string) {
	st.sort()
	if !s.seen.add(st.fingerprint(s.seed)) {
		return
	}
	if why := settles(s.cfg, st); why != "" && s.cfg.asks("Settles") {
		s.violated("Settles", why, from, text)
		return
	}
	s.states, s.origins = append(s.states, st), append(s.origins, memberOrigin{from, text})
}

func (s *memberSearch) violated(name, why string, from uint32, last string) {
	s.result.Violation = &Violation{Invariant: name, Why: why, Story: storyTo(s.origins, from, last)}
}

// sort makes one state of all that differ only in which node is which.
func (s *memberState) sort() {
	slices.SortFunc(s.nodes[:], func(a, b memberNode) int { return cmp.Compare(b.key(), a.key()) })
}

// key packs everything of a node except its name. It is zero where there is no node.
func (n *memberNode) key() uint64 {
	key := uint64(0)
	add := func(value uint8, bits int) { key = key<<bits | uint64(value) }
	for _, is := range []bool{
		n.role, n.decided, n.removing, n.up, n.off, n.runs, n.knows, n.wants, n.knowsDecided,
		n.recorded, n.shares, n.entering, n.before, n.deaf,
	} {
		if is {
			add(1, 1)
		} else {
			add(0, 1)
		}
	}
	add(uint8(n.listed), 2)
	add(uint8(n.judged), 2)
	add(uint8(n.phase), 3)
	add(uint8(n.data), 2)
	add(uint8(n.knowsListed), 2)
	return key
}

func (s *memberState) fingerprint(seed maphash.Seed) uint64 {
	var bytes [8*maxMembers + 4]byte
	for i := range s.nodes {
		binary.LittleEndian.PutUint64(bytes[8*i:], s.nodes[i].key())
	}
	bytes[8*maxMembers], bytes[8*maxMembers+1] = s.changes, s.faults
	bytes[8*maxMembers+2], bytes[8*maxMembers+3] = s.restores, s.upgrades
	return cmp.Or(maphash.Bytes(seed, bytes[:]), 1)
}

func (c *MembersConfig) asks(name string) bool { return c.Only == "" || c.Only == name }

// brokenMembers returns the first invariant that a move breaks, and why.
func brokenMembers(cfg *MembersConfig, before, now *memberState) (name, why string) {
	voters, _ := now.count()
	switch {
	case !cfg.asks("Voters"):
	case voters == 0:
		return "Voters", "the last voter was removed"
	case before.restores > now.restores && now.leavesAll():
		return "Voters", "the only member of the restored cluster has not the role, so it leaves with the first that joins"
	case cfg.Upgrades > 0:
		if was, _ := before.count(); was > 2 && before.upgrades > now.upgrades && before.quorate() && !now.quorate() {
			return "Voters", "an upgrade has stopped a voter, and the others are no majority"
		}
	case cfg.Faults == 0 && !now.quorate():
		return "Voters", "a majority of the voters answered, and does not any more, although no node has failed"
	}
	if cfg.Shared && cfg.asks("OneAddress") && now.sharing() > 1 {
		return "OneAddress", "two members have the same address"
	}
	if !cfg.asks("OneLife") {
		return "", ""
	}
	for i := range now.nodes {
		n, was := &now.nodes[i], &before.nodes[i]
		switch {
		case n.votes() && n.data != currentData:
			return "OneLife", fmt.Sprintf("n%d votes, and its data was moved away", n.name+1)
		case n.listed != protocol.NotListed && n.runs && n.data == oldData:
			return "OneLife", fmt.Sprintf("the member of n%d runs with the data of one that was removed", n.name+1)
		case n.phase == protocol.WithoutMember && was.phase != n.phase && n.runs:
			return "OneLife", fmt.Sprintf("n%d has no member, and its process runs", n.name+1)
		}
	}
	return "", ""
}

// leavesAll reports whether no voter has the role.
func (s *memberState) leavesAll() bool {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.votes() && n.role {
			return false
		}
	}
	return true
}

// sharing counts the members at the address that several nodes were given.
func (s *memberState) sharing() (count int) {
	for i := range s.nodes {
		if n := &s.nodes[i]; n.shares && n.listed != protocol.NotListed && n.listed != protocol.ListedUnknown {
			count++
		}
	}
	return count
}

// settleRounds is more than any node needs to arrive.
const settleRounds = 40

// settling are the moves that no person makes, in an order in which a node arrives soon.
var settling = []memberMove{
	memberStart, memberDelete, memberLand, memberNotice, memberLearn, memberAsk, memberPromote, memberJoin, memberStep, memberWrite,
}

// settles returns why the members do not come to match the roles when all nodes run and
// nothing changes any more; empty: they do.
func settles(cfg *MembersConfig, st memberState) string {
	st.changes, st.faults, st.restores, st.upgrades = 0, 0, 0, 0
	for i := range st.nodes {
		if st.nodes[i].judged == judgedRole || st.nodes[i].judged == judgedOperator {
			st.nodes[i].judged = notJudged // the command was interrupted
		}
	}
	for range settleRounds {
		moved := false
		for _, m := range settling {
			for i := range cfg.Nodes + cfg.Spare {
				moved = st.apply(cfg, m, i) != "" || moved
			}
		}
		if !moved {
			break
		}
	}
	for i := range cfg.Nodes + cfg.Spare {
		if n := &st.nodes[i]; !n.settled() {
			return fmt.Sprintf("n%d does not become what its role says", n.name+1)
		}
	}
	return ""
}

// settled reports whether a node matches its role.
func (n *memberNode) settled() bool {
	switch {
	case n.off || n.phase == removedForGood || n.before && n.phase == protocol.WithoutMember && !n.role && n.listed == protocol.NotListed:
		return true
	case n.role && n.shares:
		return true // it waits for people to give it an address of its own
	case n.role:
		return n.votes() && n.phase == protocol.WorkingMember && n.runs && n.data == currentData
	}
	return n.listed == protocol.NotListed && n.phase == protocol.WithoutMember && !n.runs && n.data == noData
}

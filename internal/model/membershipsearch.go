package model

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// MembersResult is the result of a search through a world of members.
type MembersResult struct {
	Found
	Steps uint16 // a bit for each step that a node took
}

// CheckMembers visits every state that cfg can reach. It stops at the first violation.
func CheckMembers(cfg *MembersConfig) (r MembersResult) {
	var seen fingerprints
	seed := maphash.MakeSeed()
	r.Found = explore(smallWorld[memberState]{
		first: initialMembers(cfg).sorted(), moves: int(memberMoves), nodes: cfg.Nodes + cfg.Spare,
		move: func(before, next *memberState, m, i int) (text, name, why string) {
			number := next.nodes[i].name + 1
			what := next.apply(cfg, memberMove(m), i)
			if what == "" {
				return "", "", ""
			}
			r.Steps |= next.steps
			next.steps = 0
			if name, why = brokenMembers(cfg, before, next); why == "" && cfg.asks("Learners") {
				name, why = brokenLearner(memberMove(m), &before.nodes[i], &next.nodes[i])
			}
			*next = next.sorted()
			return fmt.Sprintf("n%d %s", number, what), name, why
		},
		add: func(s *memberState) bool { return seen.add(s.fingerprint(seed)) },
		future: func(s *memberState) (name, why string) {
			if why = settles(cfg, *s); why != "" && cfg.asks("Settles") {
				return "Settles", why
			}
			return "", ""
		},
	})
	return r
}

// sorted makes one state of all that differ only in which node is which.
func (s memberState) sorted() memberState {
	slices.SortFunc(s.nodes[:], func(a, b memberNode) int { return cmp.Compare(b.key(), a.key()) })
	return s
}

// key packs everything of a node except its name. It is zero where there is no node.
func (n *memberNode) key() uint64 {
	key := uint64(0)
	add := func(value uint8, bits int) { key = key<<bits | uint64(value) }
	for _, is := range []bool{
		n.role, n.decided, n.removing, n.up, n.off, n.runs, n.knows, n.wants, n.knowsDecided,
		n.recorded, n.shares, n.entering, n.before, n.deaf, n.refused,
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
		case n.entering && was.listed == membership.NotListed && n.listed != was.listed && !n.role:
			return "OneLife", fmt.Sprintf("n%d joins, and leaves at once: it has not the role of a member", n.name+1)
		case n.votes() && n.data != currentData:
			return "OneLife", fmt.Sprintf("n%d votes, and its data was moved away", n.name+1)
		case n.listed != membership.NotListed && n.runs && n.data == oldData:
			return "OneLife", fmt.Sprintf("the member of n%d runs with the data of one that was removed", n.name+1)
		case n.phase == membership.WithoutMember && was.phase != n.phase && n.runs:
			return "OneLife", fmt.Sprintf("n%d has no member, and its process runs", n.name+1)
		}
	}
	return "", ""
}

// brokenLearner returns how a step of a sidecar about a learner breaks Learners. A request that was sent
// earlier (memberPromoteLate) does not: no sidecar can take it back.
func brokenLearner(m memberMove, was, now *memberNode) (name, why string) {
	switch {
	case was.listed != membership.ListedLearner || m != memberPromote && m != memberStandIn && m != memberEvict:
		return "", ""
	case was.decided && now.votes():
		return "Learners", fmt.Sprintf("n%d votes from now on, and its removal was decided: it ends at any time, and is needed until then", now.name+1)
	case m == memberStandIn && now.removing && !was.removing:
		return "Learners", fmt.Sprintf("n%d is to be removed by a sidecar that is not beside etcd's leader, and may be cut off from it", now.name+1)
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
		if n := &s.nodes[i]; n.shares && n.listed != membership.NotListed && n.listed != membership.ListedUnknown {
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
			if m == memberPromote && cfg.Hangs {
				m = memberStandIn
			}
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
	case n.off || n.phase == removedForGood ||
		n.before && n.phase == membership.WithoutMember && !n.role && n.listed == membership.NotListed:
		return true
	case n.role && n.shares:
		return true // it waits for people to give it an address of its own
	case n.role:
		return n.votes() && n.phase == membership.Working && n.runs && n.data == currentData
	}
	return n.listed == membership.NotListed && n.phase == membership.WithoutMember && !n.runs && n.data == noData
}

package model

// This file models a candidate's key that outlives its campaign. The key and the presence of a node
// are on one lease (docs/protocol.md#sessions), so the lease alone would not end it.

// leaseGivenUp: a sidecar that gives up leadership, or did not see its entry into the election
// succeed, gives up its lease too, unless etcd confirms that the key was deleted. Its bit follows the
// safeguards of services that fail.
const leaseGivenUp safeguard = 1 << 43

// leaseNotRestored: a sidecar that notices that the store went back gives up its lease: the restore may have
// brought back a key that was deleted from it.
const leaseNotRestored safeguard = 1 << 42

// savedKey is the candidate's key of a node in the backup.
type savedKey uint8

const (
	noSavedKey   savedKey = iota
	onLiveLease           // the sidecar still keeps the lease of that time alive
	onEndedLease          // it does not: the restore brings the lease back, and it expires
)

// savedKeyOf is for a backup that is made now.
func (t *transition) savedKeyOf(i int) savedKey {
	n, l := &t.state.nodes[i], t.leadership(i)
	switch held := n.keyLeft || l >= 0 && t.state.leaders[l].key; {
	case !t.cfg.KeysLeft || !held:
		return noSavedKey
	case n.run == 0:
		return onEndedLease
	default:
		return onLiveLease
	}
}

// endLease notes that the lease of a node ended, or that nothing keeps it alive any more.
func (t *transition) endLease(i int) {
	if n := &t.state.nodes[i]; n.saved.key == onLiveLease {
		n.saved.key = onEndedLease
	}
}

// bringKeyBack is the part of a restore that concerns the candidate's key of a node. If its lease is still
// kept alive, so is the key.
func (t *transition) bringKeyBack(i int) {
	n, l := &t.state.nodes[i], t.leadership(i)
	n.keyLeft = n.saved.key == onLiveLease && (l < 0 || !t.state.leaders[l].key)
	if n.keyLeft {
		t.say("the key of %s is back, on a lease that %s keeps alive", t.name(i), t.name(i))
	}
	t.state.deadKey = t.state.deadKey || n.saved.key == onEndedLease
}

// leaveKey lets a leader give up, because its lease is not certain to live any more, while it cannot
// delete its key. For a node that does not lead, it lets an entry into the election take effect
// although the candidate gave up waiting for the answer.
func (t *transition) leaveKey(i int) bool {
	n := &t.state.nodes[i]
	switch l := t.leadership(i); {
	case n.run == 0 || !n.alive:
		return false
	case l >= 0 && t.state.leaders[l].key:
		t.say("%s is cut off from etcd. It gives up the leadership, and cannot delete its key", t.name(i))
		t.depose(l)
	case l < 0 && t.mayEnter(i):
		t.say("%s enters the election, and gets no answer", t.name(i))
	default:
		return false
	}
	n.keyLeft = true
	return true
}

// leaseEnd is how a lease ends that a sidecar gives up.
type leaseEnd uint8

const (
	leaseRevoked leaseEnd = iota
	leaseExpires
	leaseEnds = iota
)

// giveUpLease lets a node with such a key give up its lease. If the lease is revoked, key and presence
// end together. If not, the presence may be on a new lease before the old one expires.
func (t *transition) giveUpLease(i int, end leaseEnd) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || !n.keyLeft || !t.givesUpLease(n) {
		return false
	}
	n.keyLeft = false
	t.endLease(i)
	if end == leaseRevoked {
		n.alive = false
		t.say("%s gives up its lease: key and presence end", t.name(i))
		return true
	}
	if !n.alive {
		return false
	}
	t.state.deadKey = true
	t.say("%s moves its presence to a new lease", t.name(i))
	return true
}

// givesUpLease reports whether the sidecar of a node knows that it must. When it enters the election, it
// finds a key that a restore brought back.
func (t *transition) givesUpLease(n *node) bool {
	switch {
	case n.behind:
		return false
	case n.rewound && n.withdrawn:
		return t.cfg.holds(leaseNotRestored)
	default:
		return t.cfg.holds(leaseGivenUp)
	}
}

// abandonKey notes that a sidecar that had left its key ended. The key expires with its lease.
func (t *transition) abandonKey(i int) {
	t.endLease(i)
	if n := &t.state.nodes[i]; n.keyLeft {
		n.keyLeft, t.state.deadKey = false, true
	}
}

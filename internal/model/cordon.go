package model

// This file models cordons: an administrator takes a node out of service
// (docs/protocol-nodes.md#cordons).

// The safeguards of cordons. Their bits follow the safeguards of services.
const (
	// Leaders wait for a node with a cordon as for any other.
	cordonedCounts safeguard = 1 << (55 - iota)
	// A node with a cordon may not lead, and others do not make way for it.
	cordonedMakesWay
)

func (t *transition) cordonMove(m move) bool {
	i := int(m.a)
	switch m.kind {
	case moveCordon:
		return t.cordon(i)
	case moveUncordon:
		return t.uncordon(i)
	case moveLearnCordon:
		return t.learnCordon(i)
	case moveGiveUpLease:
		return t.giveUpLease(i, leaseEnd(m.b))
	case moveFreePlace:
		return t.freePlace(i)
	case moveDeploy:
		return t.deploy(i)
	case moveReplace:
		return t.replace(m.b)
	case moveBeginRollback:
		return t.beginRollback(m.b)
	case moveForgetRollback:
		return t.forgetRollback()
	case moveEndRollback:
		return t.findDone()
	case moveFindOver:
		return t.findOver()
	case moveDropRollback:
		return t.dropRollback()
	case moveSettle:
		return t.settle(m.b, m.a == 1)
	default:
		return false
	}
}

// cordon is `sidecar cordon`. That another node must be in service is not in the model:
// no invariant depends on it.
func (t *transition) cordon(i int) bool {
	n := &t.state.nodes[i]
	if t.state.changes == 0 || n.record == 0 || n.record == corrupt || n.cordoned {
		return false
	}
	t.state.changes--
	t.putRecord(i, n.record)
	n.cordoned = true
	t.say("an administrator takes %s out of service", t.name(i))
	return true
}

// uncordon is `sidecar uncordon`, or the end of the cordon's time.
func (t *transition) uncordon(i int) bool {
	n := &t.state.nodes[i]
	if n.record == 0 || n.record == corrupt || !n.cordoned {
		return false
	}
	t.putRecord(i, n.record)
	n.cordoned = false
	t.say("%s is in service again", t.name(i))
	return true
}

// learnCordon lets a sidecar learn that its node is cordoned, or no longer: the gate
// closes, and reads the status again before it opens.
func (t *transition) learnCordon(i int) bool {
	n := &t.state.nodes[i]
	if n.run == 0 || !n.registered || n.obeys == n.cordoned {
		return false
	}
	n.obeys, n.ready, n.staleRead = n.cordoned, false, false
	t.say("%s learns that, and its gate closes", t.name(i))
	return true
}

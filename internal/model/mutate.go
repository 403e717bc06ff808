package model

import "github.com/lockstep-dev/lockstep/protocol"

// mutated is Next without some safeguards. The core has no switches, so each
// safeguard is removed from its input or from its answer.
func (c *Config) mutated(st *state, in protocol.Input) protocol.Step {
	if c.Off == 0 && c.OffRollback == 0 {
		return protocol.Next(in)
	}
	c.nameMutated(&in)
	if !c.holds(oneStore) {
		in.Mark.Store = ""
	}
	if !c.holds(epochRecorded) {
		in.Status.Status.Epoch = in.Local.Epoch
	}
	if !c.holds(snapshot) {
		in.Fleet = c.laggingFleet(st, in.Local.ID)
	}
	if !c.holds(lostStatus) && in.Status.Kind != protocol.StatusPresent {
		in.Mark = protocol.Mark{Kind: protocol.MarkAbsent, HighestEpoch: in.Mark.HighestEpoch}
	}
	if !c.holds(firstDone) && len(in.Mark.Entries) > 0 {
		in.Mark.FirstDone = true
	}
	if !c.holds(twoWays) {
		for i := range in.Fleet.Records {
			in.Fleet.Records[i].Node.MinReconciler = protocol.Release{}
		}
	}
	if !c.holds(registeredBlock) {
		in.Fleet.Records = alive(in.Fleet.Records)
	}
	if !c.holds(newerRegistered) && in.Local.Version.Release.Less(in.Status.Status.ContentRelease) {
		in.Status.Status.ContentRelease = in.Local.Version.Release // the digest still differs
	}
	return c.mutatedStep(in, c.rollbackMutated(in))
}

func (c *Config) mutatedStep(in protocol.Input, step protocol.Step) protocol.Step {
	now := in.Status.Status
	if !c.holds(intersection) && step.Rule == protocol.WaitForNodes && step.Kind == protocol.StepWrite {
		step.Status.Version, step.Status.MinCompatible = in.Local.Version, in.Local.Constraints.MinAPIServer
	}
	if !c.holds(newContentEpoch) && now.ContentRelease == in.Local.Version.Release && now.ContentEpoch != 0 {
		step.Status.ContentEpoch, step.Work.Content.Epoch = now.ContentEpoch, now.ContentEpoch
	}
	return step
}

// laggingFleet is the fleet without the last change of every record, except the
// leader's own. A watch can show this fleet at the current revision of the store.
func (c *Config) laggingFleet(st *state, own protocol.NodeID) protocol.Fleet {
	lagging := *st
	for i := range c.Nodes {
		if before := lagging.nodes[i].before; before != 0 && nodeID(i) != own {
			lagging.nodes[i].record = before
		}
	}
	return c.fleet(&lagging)
}

func alive(records []*protocol.Record) []*protocol.Record {
	var out []*protocol.Record
	for _, r := range records {
		if r.Alive {
			out = append(out, r)
		}
	}
	return out
}

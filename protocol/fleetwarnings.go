package protocol

// FleetWarnings returns a warning for each obstacle of the next upgrade that is not the
// upgrade itself, and that no node reports of itself: a node that is down says nothing
// (docs/protocol.md#upgrade-ready). own is the node that shows them: its gate has a place of
// its own there.
func FleetWarnings(v StatusView, f Fleet, own NodeID) []Warning {
	if f.Revision == 0 {
		return nil // it was not read yet
	}
	var out []Warning
	for _, o := range UpgradeObstacles(v, f) {
		switch o.Reason {
		case RecordCorrupt, Outage, NoLeader, APIServersDiffer, ServicesDiffer:
		case NodeDead, NoGate, Cordoned, GateClosed, APIServerNotReady:
			if o.Node == own {
				continue
			}
		default:
			continue
		}
		out = append(out, Warning{Reason: o.Reason, Subject: string(o.Node), Message: o.Message})
	}
	return out
}

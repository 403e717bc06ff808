package publish

import (
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Outside returns a warning for each node in service whose sidecar runs without
// --kubernetes-service while others run with it: pods do not reach its kube-apiserver through
// the Service, and the Service would keep the address of the last other node after that node stopped.
func Outside(f protocol.Fleet) []protocol.Warning {
	if !slices.ContainsFunc(f.Records, func(r *protocol.Record) bool { return r.Alive && r.Presence.Endpoint.TakesPart() }) {
		return nil
	}
	var out []protocol.Warning
	for _, id := range outsiders(f) {
		out = append(out, protocol.Warning{Reason: NotPublishing, Subject: string(id), Message: "its sidecar runs without --kubernetes-service, " +
			"and others run with it: Lockstep does not write its address into the Service kubernetes; start it with the flag, and its kube-apiserver with --endpoint-reconciler-type=none"})
	}
	return out
}

// reconcilers lists the nodes whose kube-apiservers write the Service, by its addresses: each
// such kube-apiserver adds its own. Empty: all nodes, or unknown.
func reconcilers(f Facts) string {
	var own []string
	nodes := 0
	for _, r := range f.Fleet.Records {
		address := addressOf(r.Presence.Endpoint, f.Family)
		if address == "" || !r.Alive {
			continue
		}
		nodes++
		if slices.Contains(f.Current.Addresses, address) {
			own = append(own, string(r.ID))
		}
	}
	if len(own) == 0 || len(own) == nodes {
		return ""
	}
	return strings.Join(own, ", ")
}

// outsiders lists the nodes in service whose sidecars do not take part.
func outsiders(f protocol.Fleet) []protocol.NodeID {
	var out []protocol.NodeID
	for _, r := range f.Records {
		if r.InService() && !r.Presence.Endpoint.TakesPart() {
			out = append(out, r.ID)
		}
	}
	return out
}

package publish

import "github.com/lockstep-dev/lockstep/protocol"

// Reasons for the contents of the Service kubernetes. Those that other decisions use are in package protocol.
const (
	// Published: the Service contains the addresses of the nodes in service.
	Published protocol.Reason = "Published"
	// Pending: a change of the nodes in service is about to be written.
	Pending protocol.Reason = "Pending"
	// EndpointsUnread: this sidecar has not read the Service yet. Check its kube-apiserver.
	EndpointsUnread protocol.Reason = "EndpointsUnread"
	// NoneReady: no node is ready, so the Service keeps its last addresses.
	NoneReady protocol.Reason = "NoneReady"
	// NotPublishing: a sidecar runs without --kubernetes-service. Give all of them the flag.
	NotPublishing protocol.Reason = "NotPublishing"
	// PortDiffers: a kube-apiserver serves on another port than most. Give all the same.
	PortDiffers protocol.Reason = "PortDiffers"
)

// Reasons lists every reason of a Step, for metrics and documentation.
func Reasons() []protocol.Reason {
	return []protocol.Reason{
		Published, Pending, EndpointsUnread, NoneReady, NotPublishing, protocol.OtherStore,
		protocol.ReconcilerRuns, protocol.OtherWriter,
	}
}

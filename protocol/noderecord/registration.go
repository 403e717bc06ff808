package noderecord

import "github.com/lockstep-dev/lockstep/protocol"

// RecordMatches reports whether a record describes this sidecar: version, constraint, boot,
// when leaders may ignore or delete it, and the role with which it registered. Only a
// status that was read after such a record was written may open the gate
// (docs/protocol-nodes.md#registration).
func RecordMatches(r protocol.Record, local protocol.Local, bootID string) bool {
	return r.Problem == "" && r.Node.ID == local.ID &&
		r.Node.Version == local.Version &&
		r.Node.MinReconciler == local.Constraints.MinReconciler &&
		r.Node.BootID == bootID &&
		r.Node.ExpireAfter == local.ExpireAfter &&
		r.Node.Ephemeral == local.Ephemeral &&
		r.Node.Serves == r.Node.Roles.Controller
}

// RegistrationFacts are the input of MustRegister.
type RegistrationFacts struct {
	Found  bool            // the node's record exists
	Record protocol.Record // as it was read now, where Found
	Last   protocol.Record // as it was when MustRegister decided last
	Local  protocol.Local
	BootID string
}

// MustRegister reports whether the node must register again. That is so if its
// record is missing, does not match this sidecar, changed its controller role, or
// was written more than once since MustRegister decided last: its contents in
// between are unknown, and a leader may have decided on them. A role that people
// took away is not taken back; losing it and getting it are both new registrations
// (docs/protocol-nodes.md#registration).
func MustRegister(f RegistrationFacts) bool {
	return !f.Found || !RecordMatches(f.Record, f.Local, f.BootID) ||
		f.Record.Node.Roles.Controller != f.Last.Node.Roles.Controller ||
		f.Record.Created != f.Last.Created || f.Record.Writes > f.Last.Writes+1
}

package protocol

import "fmt"

// Eligibility says whether a sidecar may campaign, and why not
// (docs/protocol.md#eligibility).
type Eligibility struct {
	Eligible bool
	Reason   Reason // empty while eligible
	Message  string // empty while eligible
}

// Eligible decides whether local may campaign. Its record must be registered, with the
// controller role and without a cordon, and no controller of a newer release may be alive.
// In a rollback local must run exactly that release instead (docs/protocol-objects.md#rollback).
// If several reasons apply, it gives the one that probably lasts longest. Only people
// give a role back or end a cordon, a newer controller stays as long as an upgrade takes,
// and a sidecar writes its record by itself.
func Eligible(f Fleet, local Local) Eligibility {
	own, found := f.Record(local.ID)
	if found && !own.Counts() {
		return Eligibility{Reason: NotController, Message: "this node does not have the role kubernetes_controller"}
	}
	if own.Node.Cordon.On() {
		return Eligibility{Reason: Cordoned, Message: fmt.Sprintf("this node was taken out of service %s", own.Node.Cordon)}
	}
	if f.Rollback.forbids(local.Version.Release) {
		return Eligibility{Reason: RollingBack, Message: fmt.Sprintf("%s is under way: only nodes of that release lead", f.Rollback)}
	}
	if newer := newestAlive(f, local.Version.Release); newer != nil && !f.Rollback.On() {
		return Eligibility{Reason: NewerAlive, Message: fmt.Sprintf("%s of release %s is alive and should lead", newer.ID, newer.Node.Version.Release)}
	}
	if !found || own.Problem != "" || own.Node.Version != local.Version {
		return Eligibility{Reason: NotRegistered, Message: "this node's record does not match what it runs yet"}
	}
	return Eligibility{Eligible: true}
}

// newestAlive returns the record of the newest controller above own that is alive, not
// cordoned and not withdrawn, or nil. While there is one, own may not campaign.
func newestAlive(f Fleet, own Release) (newest *Record) {
	highest := own
	for _, r := range f.Records {
		if release := r.Node.Version.Release; highest.Less(release) && r.mayLead() {
			newest, highest = r, release
		}
	}
	return newest
}

// mayLead reports whether sidecars of older releases must let this node lead.
func (r *Record) mayLead() bool {
	return r.Problem == "" && r.Node.Roles.Controller && r.Alive && !r.Node.Cordon.On() && r.Presence.Election != Withdrawn
}

package app

import (
	"cmp"
	"context"
	"reflect"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/status"
)

// keepShown publishes the state of this node, above all gate and election, for its presence until
// ctx ends.
func (a *App) keepShown(ctx context.Context) error {
	for {
		verdict, verdictChanged := a.gate.Verdict().Load()
		state, stateChanged := a.election.State().Load()
		withheld, withheldChanged := a.roles.Withheld().Load()
		other, otherChanged := a.otherAPIServer.Load()
		problems, problemsChanged := a.warned.Load()
		_, apiserverChanged := a.apiserverShown.Load()
		_, answersChanged := a.turnAnswers.Load()
		version, versionChanged := a.version.Load()
		services, servicesChanged := a.roles.Loaded().Load()
		objects, objectsChanged := a.reconcile.Report().Load()
		compared, clocksChanged := a.clocks.Load()
		a.noteTurn(verdict)
		now := fleet.Shown{
			Verdict: protocol.Verdict{Ready: verdict.Ready, Reason: verdict.Reason},
			Since:   verdict.Since, Warnings: problems.reported,
			Election: electionShown(state.Election, verdict.Reason, cmp.Or(withheld, other)),
			Endpoint: a.endpointNow(), APIServerDown: a.apiserverDown(), APIServer: version, Services: service.Digest(services),
			Beats: compared.steps,
		}
		if state.Election == protocol.Leading {
			now.Failing = objects.Failing
		}
		if !now.Equal(a.shown.Get()) {
			a.shown.Set(now)
		}
		if !event.Wait(ctx, verdictChanged, stateChanged, withheldChanged, otherChanged, problemsChanged, apiserverChanged, versionChanged,
			servicesChanged, objectsChanged, clocksChanged, answersChanged) {
			return ctx.Err()
		}
	}
}

// electionShown returns the election state that other nodes read. A sidecar that stops, or whose
// services or kube-apiserver keep its gate closed (withheld), takes no part in the election: older
// nodes may lead meanwhile (docs/protocol.md#eligibility). While it still holds the leader's key,
// it is shown as the leader, unless it stops.
func electionShown(state protocol.ElectionState, reason protocol.Reason, withheld string) protocol.ElectionState {
	if reason == protocol.ShuttingDown || withheld != "" && state != protocol.Leading {
		return protocol.Withdrawn
	}
	return state
}

// keepSnapshot publishes a snapshot after each change, until ctx ends.
func (a *App) keepSnapshot(ctx context.Context) error {
	beat := a.live.beatOf(snapshotLoop)
	for {
		changes := []<-chan struct{}{
			beat(),
			changed(a.gate.Verdict().Load()),
			changed(a.election.State().Load()),
			changed(a.election.Leader().Load()),
			changed(a.store.Observed().Load()),
			changed(a.follower.Fleet().Load()),
			changed(a.follower.Store().Load()),
			changed(a.registrar.Registration().Load()),
			changed(a.reconcile.Report().Load()),
			changed(a.etcd.Contact().Load()),
			changed(a.apiserver.Load()),
			changed(a.turnAnswers.Load()),
			changed(a.etcdFaults.Load()),
			changed(a.local.Load()),
			changed(a.bundleProblem.Load()),
			changed(a.override.Load()),
			changed(a.certificates.Load()),
			changed(a.warned.Load()),
			changed(a.seen.Load()),
			changed(a.etcdProblem.Load()),
			changed(a.cluster.Status().Load()),
			changed(a.cluster.Member().Load()),
			changed(a.cluster.Members().Load()),
			changed(a.schedule.State().Load()),
			changed(a.roles.Local().Load()),
			changed(a.roles.Loaded().Load()),
			changed(a.roles.State().Load()),
			a.serviceChanged(),
		}
		// A new observation of the fleet counts as a change: comparing all records would cost more than
		// it saves.
		was, now := a.snapshot.Get(), a.snapshotNow()
		if !sameObservation(now.Fleet, was.Fleet) || !reflect.DeepEqual(now, was) {
			a.snapshot.Set(now)
		}
		a.showRoles(now)
		if !event.Wait(ctx, changes...) {
			return ctx.Err()
		}
	}
}

// showRoles publishes the verdict of the snapshot for the services.
func (a *App) showRoles(now httpapi.Snapshot) {
	if shown := (status.Verdict{Verdict: now.Gate.Verdict, Since: now.Gate.Since}); shown != a.shownGate.Get() {
		a.shownGate.Set(shown)
	}
}

// sameObservation reports whether two fleets come from one observation.
func sameObservation(a, b protocol.Fleet) bool {
	return len(a.Records) == len(b.Records) && (len(a.Records) == 0 || &a.Records[0] == &b.Records[0])
}

func changed[T any](_ T, c <-chan struct{}) <-chan struct{} { return c }

// snapshotNow collects the current state of each part.
func (a *App) snapshotNow() httpapi.Snapshot {
	observed, contact := a.store.Observed().Get(), a.etcd.Contact().Get()
	fleet := a.follower.Fleet().Get()
	local := a.local.Get()
	own, _ := fleet.Record(local.ID)
	election, reconcile := a.electionNow(), a.reconcileNow()
	return httpapi.Snapshot{
		Local:           local,
		Roles:           own.Node.Roles,
		LocalRoles:      a.localRoles(),
		Services:        a.servicesNow(),
		Address:         a.address,
		BundleSource:    a.bundleSource(),
		BundleProblem:   a.bundleProblem.Get(),
		Registration:    a.registrar.Registration().Get(),
		Override:        a.override.Get(),
		Gate:            gateOf(a.gate.Verdict().Get(), observed, contact),
		Status:          observed.View,
		StatusUpdatedAt: observed.UpdatedAt,
		Replacement:     observed.Replacement,
		Fleet:           fleet,
		Sightings:       a.seen.Get().shown(fleet),
		WarningsSince:   a.seen.Get().warningsSince(),
		Election:        election,
		Reconcile:       reconcile,
		Etcd: httpapi.Etcd{
			Etcd: report.Etcd{
				Connected: contact.Connected, LastContact: report.At(contact.Last), Revision: contact.Revision,
				Store: a.follower.Store().Get().ID, Endpoints: a.cfg.Etcd.Endpoints,
				Problem: a.etcdProblem.Get().text, Warnings: a.etcdFaults.Get(),
			},
			Reached: contact.Reached(), Full: a.etcdProblem.Get().full,
		},
		Cluster:   a.clusterNow(),
		APIServer: a.apiserverNow(),

		Endpoints:    a.serviceNow(),
		Certificates: a.certificates.Get(),
		Warnings:     a.warned.Get().shown,
		EtcdFlags:    EtcdFlags(a.cfg.Etcd, a.dataDir()),
		OverrideFlag: OverrideFlag(a.cfg.OverrideFile),
	}
}

func (a *App) bundleSource() string {
	if a.cfg.Bundle == bundle.BuiltinName {
		return "built-in"
	}
	return a.cfg.Bundle
}

// gateOf returns the verdict and, if the gate is open while etcd is unreachable, since when.
func gateOf(v status.Verdict, observed status.Observed, contact etcd.Contact) httpapi.Gate {
	out := httpapi.Gate{Verdict: v.Verdict, Since: v.Since}
	if v.Ready && !contact.Connected {
		out.StaleSince = contact.Last
	}
	return out
}

func (a *App) electionNow() httpapi.Election {
	state, leader := a.election.State().Get(), a.election.Leader().Get()
	out := httpapi.Election{
		State: state.Election, Since: state.Since, Leader: leader.Node, Epoch: leader.Epoch,
		Eligibility: state.Eligibility, Step: state.Step, Absences: state.Absences,
	}
	if withheld := a.roles.Withheld().Get(); withheld != "" && state.Election == protocol.Ineligible {
		out.Eligibility = protocol.Eligibility{Reason: protocol.ServicesNotReady, Message: withheld}
	} else if other := a.otherAPIServer.Get(); other != "" && state.Election == protocol.Ineligible {
		out.Eligibility = protocol.Eligibility{Reason: protocol.OtherAPIServer, Message: other}
	}
	return out
}

// reconcileNow returns the reconciler's report, without fights if this node does not lead: the
// leader's report lists the current ones.
func (a *App) reconcileNow() report.Reconcile {
	r, state := a.reconcile.Report().Get(), a.election.State().Get()
	if state.Election != protocol.Leading {
		r.Drift.Fights = nil
	}
	r.LastError, r.Running = cmp.Or(r.LastError, state.Problem), state.Working
	return r
}

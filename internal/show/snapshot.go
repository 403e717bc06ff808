package show

import (
	"cmp"
	"context"
	"reflect"
	"time"

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

// KeepPresence publishes the state of this node, above all gate and election, for its presence until
// ctx ends.
func (s *Show) KeepPresence(ctx context.Context) error {
	for {
		changes := append(event.Changes(
			s.Verdict, s.Election, s.Withheld, s.APIServer.Other(), s.warned, s.APIServer.Shown(), s.APIServer.Version(),
			s.Services, s.Reconcile, s.Clocks,
		), s.APIServer.AnswersChanged())
		verdict, election := s.Verdict.Get(), s.Election.Get().Election
		s.APIServer.NoteTurn(verdict.Verdict)
		now := fleet.Shown{Since: verdict.Since, Beats: s.Clocks.Get().Steps, Presence: protocol.Presence{
			Ready: verdict.Ready, Reason: verdict.Reason, Warnings: s.warned.Get().reported,
			Election: electionShown(election, verdict.Reason, cmp.Or(s.Withheld.Get(), s.APIServer.Other().Get())),
			Endpoint: s.endpointNow(), APIServerDown: s.APIServer.Down(), APIServer: s.APIServer.Version().Get(),
			Services: service.Digest(s.Services.Get()),
		}}
		if election == protocol.Leading {
			now.Failing = s.Reconcile.Get().Failing
		}
		if !now.Equal(s.cfg.Presence.Get()) {
			s.cfg.Presence.Set(now)
		}
		if !event.Wait(ctx, changes...) {
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

// KeepSnapshot publishes a snapshot after each change, until ctx ends.
func (s *Show) KeepSnapshot(ctx context.Context) error {
	for {
		changes := append(event.Changes(
			s.Verdict, s.Election, s.Leader, s.Status, s.Fleet, s.Store, s.Registration, s.Reconcile, s.Contact,
			s.APIServer.State(), s.EtcdFaults, s.Local, s.BundleFault, s.Override, s.Certificates, s.warned, s.seen, s.EtcdProblem,
			s.Cluster.Status(), s.Cluster.Member(), s.Cluster.Members(), s.Cluster.Removed(), s.Schedule,
			s.Roles, s.Services, s.ServiceState, s.Endpoints,
		), s.cfg.Beat(), s.APIServer.AnswersChanged())
		// A new observation of the fleet counts as a change: comparing all records would cost more than
		// it saves.
		was, now := s.snapshot.Get(), s.now()
		if !sameRecords(now.Fleet.Records, was.Fleet.Records) || !reflect.DeepEqual(now, was) {
			s.snapshot.Set(now)
		}
		s.cfg.Rendered(status.Verdict{Verdict: now.Gate.Verdict, Since: now.Gate.Since})
		if !event.Wait(ctx, changes...) {
			return ctx.Err()
		}
	}
}

// sameRecords reports whether the records of two fleets come from one observation.
func sameRecords(a, b []*protocol.Record) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// now collects the current state of each part.
func (s *Show) now() httpapi.Snapshot {
	observed, contact := s.Status.Get(), s.Contact.Get()
	fleet := s.Fleet.Get()
	local := s.Local.Get()
	own, _ := fleet.Record(local.ID)
	election, reconcile := s.electionNow(), s.reconcileNow()
	return httpapi.Snapshot{
		Local:           local,
		Roles:           own.Node.Roles,
		LocalRoles:      s.localRoles(),
		Services:        s.servicesNow(),
		Address:         s.cfg.Address,
		BundleSource:    s.bundleSource(),
		BundleProblem:   s.bundleProblem(),
		Registration:    s.Registration.Get(),
		Override:        s.Override.Get(),
		Gate:            gateOf(s.Verdict.Get(), observed, contact),
		Status:          observed.View,
		StatusUpdatedAt: observed.UpdatedAt,
		Replacement:     observed.Replacement,
		Fleet:           fleet,
		Sightings:       s.seen.Get().shown(fleet, time.Now()),
		WarningsSince:   s.seen.Get().warningsSince(),
		Election:        election,
		Reconcile:       reconcile,
		Etcd: httpapi.Etcd{
			Etcd: report.Etcd{
				Connected: contact.Connected, LastContact: report.At(contact.Last), Revision: contact.Revision, Store: s.Store.Get().ID,
				Endpoints: s.cfg.Etcd.Endpoints, Problem: s.EtcdProblem.Get().Text, Warnings: s.EtcdFaults.Get(),
			},
			Reached: contact.Reached(), Full: s.EtcdProblem.Get().Full,
		},
		Cluster:   s.clusterNow(),
		APIServer: s.APIServer.Now(),

		Endpoints:    s.Endpoints.Get().Endpoints,
		Certificates: s.Certificates.Get(),
		Warnings:     ofPresentMembers(s.warned.Get().shown, s.Cluster.Members().Get()),
		EtcdFlags:    etcd.CommandFlags(s.cfg.Etcd, s.cfg.DataDir),
		OverrideFlag: status.OverrideFlag(s.cfg.OverrideFile),
	}
}

// bundleProblem returns why the current content of the bundle directory is not in use; empty: it is.
func (s *Show) bundleProblem() string {
	if err := s.BundleFault.Get(); err != nil {
		return err.Error()
	}
	return ""
}

func (s *Show) bundleSource() string {
	if s.cfg.Bundle == bundle.BuiltinName {
		return "built-in"
	}
	return s.cfg.Bundle
}

// gateOf returns the verdict and, if the gate is open while etcd is unreachable, since when.
func gateOf(v status.Verdict, observed status.Observed, contact etcd.Contact) httpapi.Gate {
	out := httpapi.Gate{Verdict: v.Verdict, Since: v.Since}
	if v.Ready && !contact.Connected {
		out.StaleSince = contact.Last
	}
	return out
}

func (s *Show) electionNow() httpapi.Election {
	state, leader := s.Election.Get(), s.Leader.Get()
	out := httpapi.Election{
		State: state.Election, Since: state.Since, Leader: leader.Node, Epoch: leader.Epoch,
		Eligibility: state.Eligibility, Step: state.Step, Absences: state.Absences,
	}
	if state.Election == protocol.Leading { // its watch may not have shown its key yet
		out.Leader, out.Epoch = s.Local.Get().ID, state.Epoch
	}
	if withheld := s.Withheld.Get(); withheld != "" && state.Election == protocol.Ineligible {
		out.Eligibility = protocol.Eligibility{Reason: protocol.ServicesNotReady, Message: withheld}
	} else if other := s.APIServer.Other().Get(); other != "" && state.Election == protocol.Ineligible {
		out.Eligibility = protocol.Eligibility{Reason: protocol.OtherAPIServer, Message: other}
	}
	return out
}

// reconcileNow returns the reconciler's report, without fights if this node does not lead: the
// leader's report lists the current ones.
func (s *Show) reconcileNow() report.Reconcile {
	r, state := s.Reconcile.Get(), s.Election.Get()
	if state.Election != protocol.Leading {
		r.Drift.Fights = nil
	}
	r.LastError, r.Running = cmp.Or(r.LastError, state.Problem), state.Working
	return r
}

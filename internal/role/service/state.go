package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/report"
)

// Phase is the stage of a service in its supervisor.
type Phase = report.Phase

// The phases, as /status shows them.
const (
	Waiting  Phase = "Waiting"  // for the services before it, or for one that stops
	Starting Phase = "Starting" // its driver starts it
	Running  Phase = "Running"  // an instance runs
	BackOff  Phase = "BackOff"  // its instance ended; the next one starts after a pause
	Stopping Phase = "Stopping" // it is being stopped
	Stopped  Phase = "Stopped"
)

// Status is the state of one service.
type Status struct {
	// Service is what people see. LastLines, which are never nil, change only with Phase, Ready or Problem: a service
	// that writes much would wake all followers of its state. With StatusNone they are empty.
	report.Service

	// wasReady: it was ready since its worker started it, so the services after it may start.
	wasReady bool
	served   bool    // its instance was ready
	of       Service // the service that its worker runs
}

// Report describes the service for people.
func (s Status) Report() report.Service {
	if s.Ready { // what a healthy service writes is for its log: all local users can read /status
		s.LastLines = nil
	}
	return s.Service
}

// Report describes a service that does not run.
func (s Service) Report() report.Service {
	return report.Service{
		Name: s.Name, Role: s.Role, Driver: s.Driver(), Phase: Stopped,
		Required: !s.Optional, File: s.Source.File, Changed: report.At(s.Source.Changed),
	}
}

// Trusts reports whether a service works with these CAs of etcd, or uses none.
func (s Status) Trusts(trust string) bool {
	uses := s.of.Process != nil && s.of.Process.Trust != ""
	return !uses || s.of.Process.Trust == trust && (s.Ready || !s.Required && s.Phase == Running)
}

// State is the state of all services.
type State struct {
	Services []Status // in the order in which they start
	// Reload is the number of the last call of Supervisor.Reload that this state reflects. A service
	// that is neither in that call nor in Services is stopped and does not start.
	Reload int
}

// Unready names the first of these services that is required and not ready, and why; empty: none. A
// service that runs with other values is not ready.
func (s State) Unready(wanted []Service) string {
	for _, svc := range wanted {
		st, known := s.find(svc.Name)
		if svc.Optional || known && st.Ready && st.of.Equal(svc) {
			continue
		}
		if !known {
			return fmt.Sprintf("service %q is not started", svc.Name)
		}
		text := fmt.Sprintf("service %q is not ready (%s)", svc.Name, st.Phase)
		if why := cmp.Or(st.Problem, st.LastExit); why != "" {
			text += ": " + why
		}
		return text
	}
	return ""
}

// Runs reports whether an instance of each required one of these services runs.
func (s State) Runs(wanted []Service) bool {
	for _, svc := range wanted {
		if svc.Optional {
			continue
		}
		if st, known := s.find(svc.Name); !known || st.Phase != Running || !st.of.Equal(svc) {
			return false
		}
	}
	return true
}

// find returns the status of a service.
func (s State) find(name string) (Status, bool) {
	if i := s.index(name); i >= 0 {
		return s.Services[i], true
	}
	return Status{}, false
}

func (s State) index(name string) int {
	return slices.IndexFunc(s.Services, func(st Status) bool { return st.Name == name })
}

// with returns a copy of s with one changed status. s stays as it is.
func (s State) with(name string, change func(*Status)) State {
	out := State{Services: slices.Clone(s.Services), Reload: s.Reload}
	if i := out.index(name); i >= 0 {
		st := &out.Services[i]
		before := *st
		change(st)
		if st.Phase != before.Phase || st.Ready != before.Ready {
			st.Since = report.At(time.Now())
		}
		st.wasReady = st.wasReady || st.Ready
		st.served = st.Phase == Running && (st.served || st.Ready)
	}
	return out
}

// arranged returns a state with the statuses of the wanted services in their order, followed by the
// others. A service without a status starts as Waiting.
func (s State) arranged(wanted wish, others []Service) State {
	out := State{Services: make([]Status, 0, len(wanted.services)+len(others)), Reload: wanted.number}
	for _, svc := range slices.Concat(wanted.services, others) {
		if _, done := out.find(svc.Name); done {
			continue
		}
		st, known := s.find(svc.Name)
		if !known || st.Phase == Stopped {
			st = Status{of: st.of, Service: report.Service{Restarts: st.Restarts, LastExit: st.LastExit, LastLines: st.LastLines}}
			st.Name, st.Phase, st.Since = svc.Name, Waiting, report.At(time.Now())
		}
		st.Role, st.Driver, st.Required = svc.Role, svc.Driver(), !svc.Optional
		st.File, st.Changed = svc.Source.File, report.At(svc.Source.Changed)
		if st.LastLines == nil {
			st.LastLines = []string{}
		}
		out.Services = append(out.Services, st)
	}
	return out
}

// Run returns the service as a fact for the protocol.
func (s Status) Run(now time.Time) nodeservices.Run {
	run := nodeservices.Run{
		Name: s.Name, Optional: !s.Required, Ready: s.Ready, Ends: s.Phase == Stopped || s.Phase == Stopping,
		LastExit: s.LastExit, Restarts: s.Restarts, Served: s.served, Problem: s.Problem, File: s.File, Changed: s.Changed.Time,
	}
	if s.Pends() {
		run.Unready, run.Since = now.Sub(s.Since.Time), s.Since.Time
	}
	return run
}

// Pends reports whether the service runs or is being started, and is not ready.
func (s Status) Pends() bool {
	return !s.Ready && (s.Phase == Running || s.Phase == Starting)
}

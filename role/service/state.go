package service

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Phase is what the supervisor does with a service.
type Phase string

// The phases, as /status shows them.
const (
	Waiting  Phase = "Waiting"  // for the services before it, or for one that stops
	Starting Phase = "Starting" // its driver starts it
	Running  Phase = "Running"  // an instance runs
	BackOff  Phase = "BackOff"  // its instance has ended, and is started again after a pause
	Stopping Phase = "Stopping" // it is being stopped
	Stopped  Phase = "Stopped"
)

// Status is what is known of one service.
type Status struct {
	Name   string
	Role   string
	Driver string // process, systemdUnit or staticPod
	Phase  Phase
	// Ready: the instance that runs now is ready.
	Ready bool
	Since time.Time // of the last change of Phase or Ready
	// Restarts is how often it was started again after it had ended by itself.
	Restarts int
	// LastExit is why its instance ended last; empty: none has.
	LastExit string
	// LastLines are the newest lines of its output, as of the last change of Phase, Ready or
	// Problem; never nil. They are not followed: a service that writes much would wake all
	// followers of the state. Empty: the service does not want to show them (StatusNone).
	LastLines []string
	// Problem is what the last probe found, or why it could not be stopped; empty: nothing.
	Problem string

	// Optional: nothing waits until it is ready.
	Optional bool
	Source   Source

	// wasReady: it was ready since its worker started it, so what follows it may start.
	wasReady bool
	of       Service // that its worker runs
}

// Trusts reports whether a service works with these CAs of etcd, or does not use them.
func (s Status) Trusts(trust string) bool {
	uses := s.of.Process != nil && s.of.Process.Trust != ""
	return !uses || s.of.Process.Trust == trust && (s.Ready || s.Optional && s.Phase == Running)
}

// State is what is known of all services.
type State struct {
	Services []Status // in the order in which they start
	// Ready: all of them that are required are ready.
	Ready bool
	// Reload is the number of the last call of Supervisor.Reload that it follows from. A service
	// that this call did not want, and that is not in Services, has stopped and does not start.
	Reload int
}

// Unready says which of these services are required and not ready, and why; empty: none. One
// that was started with other values is not ready.
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

// Runs reports whether an instance of each of these services runs that is required.
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
	i := slices.IndexFunc(s.Services, func(st Status) bool { return st.Name == name })
	if i < 0 {
		return Status{}, false
	}
	return s.Services[i], true
}

// with returns a state in which one status is changed. Others keep s.
func (s State) with(name string, change func(*Status)) State {
	out := State{Services: slices.Clone(s.Services), Ready: true, Reload: s.Reload}
	for i := range out.Services {
		st := &out.Services[i]
		if st.Name == name {
			before := *st
			change(st)
			if st.Phase != before.Phase || st.Ready != before.Ready {
				st.Since = time.Now()
			}
			st.wasReady = st.wasReady || st.Ready
		}
		out.Ready = out.Ready && (st.Ready || st.Optional)
	}
	return out
}

// arranged returns a state with the statuses of wanted services, in their order, and then of
// those that still run. A service without a status waits.
func (s State) arranged(wanted wish, others []Service) State {
	out := State{Services: make([]Status, 0, len(wanted.services)+len(others)), Ready: true, Reload: wanted.number}
	add := func(svc Service) {
		if _, done := out.find(svc.Name); done {
			return
		}
		st, known := s.find(svc.Name)
		if !known || st.Phase == Stopped {
			st = Status{Restarts: st.Restarts, LastExit: st.LastExit, LastLines: st.LastLines, of: st.of}
			st.Name, st.Phase, st.Since = svc.Name, Waiting, time.Now()
		}
		st.Role, st.Driver, st.Optional, st.Source = svc.Role, svc.Driver(), svc.Optional, svc.Source
		if st.LastLines == nil {
			st.LastLines = []string{}
		}
		out.Services = append(out.Services, st)
		out.Ready = out.Ready && (st.Ready || st.Optional)
	}
	for _, svc := range wanted.services {
		add(svc)
	}
	for _, svc := range others {
		add(svc)
	}
	return out
}

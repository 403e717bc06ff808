package role

import (
	"context"
	"slices"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
)

// This file handles units and pods that an earlier sidecar started and that the directory no longer
// contains. A sidecar that was killed did not stop them. They would serve beside the services of
// this sidecar, or in their place: so nothing starts before they have ended.

// findLeft finds the services that an earlier sidecar left running. Call it after the disk was
// loaded, before Run.
func (s *Supervised) findLeft() {
	loaded := s.expanded(s.cfg.Variables.Get())
	s.refresh(func() {
		s.foundLeft = true
		s.left = slices.DeleteFunc(s.cfg.Disk.Started(), func(st service.Started) bool { return slices.ContainsFunc(loaded, st.Is) })
	})
	for _, st := range s.left {
		s.cfg.Log.Warn("the directory no longer has a service that an earlier sidecar started: it stops first", "service", st.Name)
	}
}

// leftOf returns the services of the role that an earlier sidecar left running. It needs the lock.
func (r *Group) leftOf() []service.Started {
	return slices.DeleteFunc(slices.Clone(r.supervised.left), func(st service.Started) bool { return st.Role != r.role })
}

func servicesOf(started []service.Started) []service.Service {
	var out []service.Service
	for _, st := range started {
		out = append(out, st.Service())
	}
	return out
}

// ownAndLeft returns the services of the role and those left running by an earlier sidecar, which
// stop last.
func (r *Group) ownAndLeft() []service.Service {
	r.supervised.mu.Lock()
	defer r.supervised.mu.Unlock()
	return slices.Concat(servicesOf(r.leftOf()), r.own())
}

// forget removes stopped services from left. It needs the lock.
func (s *Supervised) forget(stopped []service.Service) {
	s.left = slices.DeleteFunc(slices.Clone(s.left), func(st service.Started) bool { return slices.ContainsFunc(stopped, st.Is) })
}

// startable returns the wanted services that may run now: none while a service left by an earlier
// sidecar still runs, and no unit or pod that is not kept on disk. It needs the lock.
func (s *Supervised) startable(wanted []service.Service) []service.Service {
	if s.problem = ""; len(s.left) > 0 {
		s.problem = "service \"" + s.left[0].Name + "\" of an earlier sidecar, which the directory no longer has, has not stopped yet"
		wanted = nil
	}
	started := slices.Clone(s.left)
	add := func(all []service.Service) {
		for _, st := range service.StartedOf(all) {
			if !slices.Contains(started, st) {
				started = append(started, st)
			}
		}
	}
	add(wanted)
	add(s.supervisor.State().Get().Running())
	if !s.foundLeft { // nothing was started yet, and the disk still lists the left services
		return nil
	}
	err := s.cfg.Disk.SetStarted(started)
	if err == nil {
		return wanted
	}
	s.problem = "what starts cannot be kept on disk: " + err.Error()
	kept := s.cfg.Disk.Started()
	for i := range wanted {
		if of := service.StartedOf(wanted[i : i+1]); len(of) > 0 && !slices.Contains(kept, of[0]) {
			return append(slices.Clone(wanted[:i]), slices.DeleteFunc(slices.Clone(wanted[i:]), s.isNew)...)
		}
	}
	return wanted
}

// isNew reports whether a service is missing from those that already run. It needs the lock.
func (s *Supervised) isNew(svc service.Service) bool {
	return !slices.ContainsFunc(s.wanted, svc.Equal)
}

// stopDue stops left services of the roles whose services are to start. Where the node lost the
// role, Group.Stop stops them.
func (s *Supervised) stopDue(ctx context.Context) {
	s.mu.Lock()
	due := servicesOf(slices.DeleteFunc(slices.Clone(s.left), func(st service.Started) bool {
		return slices.ContainsFunc(s.roles, func(r *Group) bool { return r.role == st.Role && !r.running })
	}))
	s.mu.Unlock()
	if len(due) == 0 || ctx.Err() != nil {
		return
	}
	if err := service.StopAll(ctx, s.cfg.Supervisor, due); err != nil {
		s.cfg.Log.Error("services of an earlier sidecar not stopped, trying again", "err", err)
		return
	}
	s.refresh(func() { s.forget(due) })
}

// await returns after one of the changes, or when it is time to try again after a problem. It
// reports false when ctx has ended.
func (s *Supervised) await(ctx context.Context, changes ...<-chan struct{}) bool {
	s.mu.Lock()
	again := s.problem != ""
	s.mu.Unlock()
	if again {
		return event.WaitFor(ctx, retryPause, changes...)
	}
	return event.Wait(ctx, changes...)
}

package service

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
	"github.com/lockstep-dev/lockstep/internal/role/service/process"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
	"github.com/lockstep-dev/lockstep/internal/role/service/staticpod"
	"github.com/lockstep-dev/lockstep/internal/role/service/systemd"
)

// newDriver returns the driver that the service's file names.
func (s *Supervisor) newDriver(svc Service) driver.Driver {
	log := s.log.With("service", svc.Name)
	free := func(ctx context.Context) error { return s.awaitFree(ctx, svc) }
	switch {
	case svc.Process != nil:
		return process.New(process.Config{Process: *svc.Process, StopTimeout: svc.StopTimeout, Starter: s.starter, Free: free, Log: log})
	case svc.SystemdUnit != nil:
		return systemd.New(systemd.Config{Unit: svc.SystemdUnit.Name, StopTimeout: svc.StopTimeout, Free: free, Log: log})
	default:
		return staticpod.New(staticpod.Config{
			Name: svc.Name, Manifest: svc.StaticPod.Content, Directory: svc.StaticPod.Directory, StopTimeout: svc.StopTimeout,
			Refused: func(ctx context.Context) bool { return readiness.Refused(s.cfg.NewProbe(svc)(ctx)) }, Log: log,
		})
	}
}

// awaitFree returns when no program answers where a service that is about to start is to be probed.
// If the probe is a program, it records whether that program already succeeds.
func (s *Supervisor) awaitFree(ctx context.Context, svc Service) error {
	if svc.Readiness != nil && svc.Readiness.Exec != nil {
		s.unproven.Store(svc.Name, readiness.New(*svc.Readiness, s.starter.Exec)(ctx) == nil)
	}
	return readiness.AwaitFree(ctx, svc.Name, svc.Readiness)
}

func (s *Supervisor) newProbe(svc Service) readiness.Probe {
	probe := readiness.New(*svc.Readiness, s.starter.Exec)
	if unproven, known := s.unproven.Load(svc.Name); known && unproven == true {
		return readiness.Proven(probe)
	}
	return probe
}

// clean removes manifests that an earlier sidecar placed for other services.
func (s *Supervisor) clean(ctx context.Context, services []Service) {
	keep := map[string][]string{}
	for _, svc := range services {
		if svc.StaticPod != nil {
			dir := svc.StaticPod.Directory
			keep[dir] = append(keep[dir], svc.Name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(keep)) {
		removed, err := staticpod.Clean(dir, keep[dir])
		if len(removed) > 0 {
			s.log.InfoContext(ctx, "manifests of earlier services removed", "directory", dir, "files", removed)
		}
		if err != nil {
			s.log.ErrorContext(ctx, "manifests of earlier services not removed", "directory", dir, "err", err)
		}
	}
}

// StopAll stops any running instance of these services, such as one that an earlier sidecar started
// for a role that this node lost since. It starts nothing.
func StopAll(ctx context.Context, cfg Config, services []Service) error {
	s := New(cfg)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	var errs []error
	for _, svc := range slices.Backward(services) {
		w := &worker{s: s, service: svc}
		if exit := (&attempt{w: w}).run(ended); exit.StillRuns {
			errs = append(errs, errors.Join(ErrStillRuns, errors.New(svc.Name+": "+exit.Reason)))
		}
	}
	return errors.Join(errs...)
}

package service

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// Started identifies a unit or a pod, which may outlive the sidecar that starts it. With it the
// next sidecar can stop the service even if the services directory no longer contains it.
type Started struct {
	Name string `json:"name"` // of the service
	Role string `json:"role"`
	// Exactly one of Unit and Directory is set.
	Unit        string `json:"systemdUnit,omitempty"`
	Directory   string `json:"staticPodDirectory,omitempty"` // the directory that a kubelet reads
	Address     string `json:"address,omitempty"`            // the address that its probe connects to; empty: none
	StopTimeout string `json:"stopTimeout"`
}

// StartedOf returns the units and pods among services, with their variables expanded.
func StartedOf(services []Service) []Started {
	var out []Started
	for _, svc := range services {
		st := Started{Name: svc.Name, Role: svc.Role, Address: svc.Readiness.Address(), StopTimeout: svc.StopTimeout.String()}
		switch {
		case svc.SystemdUnit != nil:
			st.Unit = svc.SystemdUnit.Name
		case svc.StaticPod != nil:
			st.Directory = svc.StaticPod.Directory
		default:
			continue
		}
		out = append(out, st)
	}
	return out
}

// Validate returns the first problem.
func (s Started) Validate() error {
	if s.Name == "" || (s.Unit == "") == (s.Directory == "") || s.Directory != "" && s.Address == "" {
		return errors.New("a service that was started has neither a unit nor the directory and the address of a pod")
	}
	if _, err := time.ParseDuration(s.StopTimeout); err != nil {
		return fmt.Errorf("service %q: stopTimeout: %w", s.Name, err)
	}
	return nil
}

// Is reports whether it is the unit or the pod of a service: then the driver of the service stops
// it. A pod whose probe moved to another address is not: the driver would not see it end.
func (s Started) Is(svc Service) bool {
	if s.Unit != "" {
		return svc.SystemdUnit != nil && svc.SystemdUnit.Name == s.Unit
	}
	return svc.StaticPod != nil && svc.Name == s.Name && svc.StaticPod.Directory == s.Directory && svc.Readiness.Address() == s.Address
}

// Service returns a service whose driver can stop it, but cannot start it. s must be valid.
func (s Started) Service() Service {
	svc := Service{Name: s.Name, Role: s.Role}
	svc.StopTimeout, _ = time.ParseDuration(s.StopTimeout) // it is valid
	if s.Unit != "" {
		svc.SystemdUnit = &SystemdUnit{Name: s.Unit}
		return svc
	}
	svc.StaticPod = &StaticPod{Directory: s.Directory}
	svc.Readiness = &readiness.Config{TCPSocket: &readiness.TCPSocket{Address: s.Address}, Timeout: readiness.DefaultTimeout}
	return svc
}

// Running returns the services that may have a running instance.
func (s State) Running() []Service {
	var out []Service
	for _, st := range s.Services {
		if st.Phase != Waiting && (st.Phase != Stopped || st.Problem != "") {
			out = append(out, st.of)
		}
	}
	return out
}

package service

import (
	"reflect"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/process"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// Service is one program that a node runs for a role. Exactly one of Process, SystemdUnit and
// StaticPod is set.
type Service struct {
	Name string
	Role string // as protocol.RoleController

	Process     *Process
	SystemdUnit *SystemdUnit
	StaticPod   *StaticPod

	// Readiness is how the service is probed; nil: it is ready when it has run for 0.1 s.
	Readiness   *readiness.Config
	StopTimeout time.Duration

	// Optional: neither the gate nor the services after it wait until it is ready
	// (required: false).
	Optional bool
	// Restart is RestartImmediately, or empty: in turn. Equal ignores it.
	Restart string
	// Source is the file that it was loaded from. Equal and Digest ignore it.
	Source Source `json:"-"`
}

// Source is the file of a service.
type Source struct {
	File    string
	Changed time.Time // when the file was written
}

// Process is a child process of the sidecar.
type Process = process.Process

// Output is a file for the output of a process.
type Output = process.Output

// StatusNone is for a process whose output may contain secrets.
const StatusNone = "none"

// SystemdUnit is a systemd unit that is installed on the node.
type SystemdUnit struct {
	Name string `field:"name" required:""`
}

// StaticPod is a pod that the node's kubelet runs.
type StaticPod struct {
	Manifest  string `field:"manifest" required:""` // the file
	Content   []byte // the content of the file when it was loaded
	Directory string `field:"directory" required:""` // the directory that the kubelet reads
}

// Driver returns the name of the driver: process, systemdUnit or staticPod.
func (s Service) Driver() string {
	switch {
	case s.Process != nil:
		return driverProcess
	case s.SystemdUnit != nil:
		return driverSystemdUnit
	default:
		return driverStaticPod
	}
}

const (
	driverProcess     = "process"
	driverSystemdUnit = "systemdUnit"
	driverStaticPod   = "staticPod"
)

// Equal reports whether two services are the same, including the contents of the files that they
// name.
func (s Service) Equal(other Service) bool {
	s.Source, other.Source = Source{}, Source{}
	s.Restart, other.Restart = "", "" // how a change is made, not what runs
	return reflect.DeepEqual(s, other)
}

// Defaults of a service.
const (
	DefaultStopTimeout = 30 * time.Second
	DefaultMaxSizeMiB  = 100
	DefaultBackups     = 3
)

// OfRole returns the services of a role, in their order.
func OfRole(all []Service, role string) []Service {
	return slices.DeleteFunc(slices.Clone(all), func(s Service) bool { return s.Role != role })
}

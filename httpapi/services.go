package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// LocalRoles are the roles by which a sidecar starts and stops services
// (docs/protocol.md#services). The zero value: it does not know them yet.
type LocalRoles struct {
	Roles  protocol.Roles
	Source string    // cluster or disk; empty: they are not known yet
	Since  time.Time // when the sidecar learned them
}

// RolesReport is LocalRoles in /status.
type RolesReport struct {
	Local  []string   `json:"local"`
	Source string     `json:"source"`
	Since  *time.Time `json:"since"`
}

func rolesReport(l LocalRoles) RolesReport {
	return RolesReport{Local: l.Roles.Names(), Source: l.Source, Since: timestamp(l.Since)}
}

// Service is a program that this node runs for one of its roles (docs/roles.md).
type Service struct {
	Name     string
	Role     string
	Driver   string    // process, systemdUnit or staticPod
	State    string    // Waiting, Starting, Running, BackOff, Stopping or Stopped
	Ready    bool      // the instance that runs now is ready
	Since    time.Time // when State or Ready last changed
	Restarts int
	LastExit string   // why its last instance ended; empty: none ended
	Problem  string   // the problem that the last probe reported, or why it could not be stopped; empty: none
	Lines    []string // the newest of its output, the oldest first

	Optional bool      // nothing waits until it is ready
	File     string    // of its definition
	Changed  time.Time // when that file was written
}

// ServiceReport is Service in /status.
type ServiceReport struct {
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	Driver    string     `json:"driver"`
	State     string     `json:"state"`
	Ready     bool       `json:"ready"`
	Since     *time.Time `json:"since"`
	Restarts  int        `json:"restarts"`
	LastExit  string     `json:"lastExit"`
	Problem   string     `json:"problem"`
	LastLines []string   `json:"lastLines"`
	Required  bool       `json:"required"` // the gate waits until it is ready
	File      string     `json:"file"`
	Changed   *time.Time `json:"changed"` // when the file was written
}

// ServiceReports returns services as /status shows them; never nil.
func ServiceReports(services []Service) []ServiceReport {
	out := make([]ServiceReport, 0, len(services))
	for _, s := range services {
		lines := []string{}
		if !s.Ready { // what a healthy service writes is for its log: all local users can read /status
			lines = append(lines, s.Lines...)
		}
		out = append(out, ServiceReport{
			Name: s.Name, Role: s.Role, Driver: s.Driver, State: s.State, Ready: s.Ready, Since: timestamp(s.Since),
			Restarts: s.Restarts, LastExit: s.LastExit, Problem: s.Problem, LastLines: lines,
			Required: !s.Optional, File: s.File, Changed: timestamp(s.Changed),
		})
	}
	return out
}

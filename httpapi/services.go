package httpapi

import "time"

// Service is a program that this node runs for one of its roles (docs/roles.md).
type Service struct {
	Name     string
	Role     string
	Driver   string    // process, systemdUnit or staticPod
	State    string    // Waiting, Starting, Running, BackOff, Stopping or Stopped
	Ready    bool      // the instance that runs now is ready
	Since    time.Time // when State or Ready last changed
	Restarts int
	LastExit string   // why its instance ended last; empty: none has
	Lines    []string // the newest of its output, the oldest first
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
	LastLines []string   `json:"lastLines"`
}

// ServiceReports returns services as /status shows them; never nil.
func ServiceReports(services []Service) []ServiceReport {
	out := make([]ServiceReport, 0, len(services))
	for _, s := range services {
		out = append(out, ServiceReport{
			Name: s.Name, Role: s.Role, Driver: s.Driver, State: s.State, Ready: s.Ready, Since: timestamp(s.Since),
			Restarts: s.Restarts, LastExit: s.LastExit, LastLines: append([]string{}, s.Lines...),
		})
	}
	return out
}

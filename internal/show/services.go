package show

import (
	"strings"

	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/variables"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// localRoles returns the roles by which this sidecar starts and stops services.
func (s *Show) localRoles() report.Roles {
	local := s.Roles.Get()
	return report.Roles{Local: local.Roles.Names(), Source: string(local.Source), Since: report.At(local.Since)}
}

// servicesNow lists the services of the directory, and those still running whose file was deleted.
func (s *Show) servicesNow() []report.Service {
	var out []report.Service
	listed := map[string]bool{}
	for _, st := range s.ServiceState.Get().Services {
		listed[st.Name] = true
		out = append(out, st.Report())
	}
	for _, svc := range s.Services.Get() {
		if !listed[svc.Name] {
			out = append(out, svc.Report())
		}
	}
	return out
}

// missingServers returns the servers of etcd that left the cluster, if a service uses them.
func (s *Show) missingServers() variables.Missing {
	if !service.UseServers(s.Services.Get()) {
		return variables.Missing{}
	}
	return s.Servers.Get()
}

// serviceWarnings returns the problems of this node's services.
func (s *Show) serviceWarnings(runs []nodeservices.Run) []protocol.Warning {
	var out []protocol.Warning
	if problem := s.ServicesProblem.Get(); problem != "" {
		out = append(out, protocol.Warning{Reason: warn.ServicesRejected, Message: "its services directory was rejected, and the last valid services stay in use; " +
			"the directory is read again when it changes, and a restart would fail until it is valid: " + strings.ReplaceAll(problem, "\n", "; ")})
	}
	if missing := s.missingServers(); missing.Servers > 0 {
		out = append(out, protocol.Warning{Reason: warn.ServersReplaced, Message: missing.Message})
	}
	return append(out, nodeservices.Failing(runs)...)
}

package show

import (
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

package service

import (
	"fmt"
	"slices"
	"strings"
)

// Variables are the values of $(NAME) in services.
type Variables struct {
	// EtcdServers is a list with commas, as for --etcd-servers of kube-apiserver.
	EtcdServers                           string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	NodeID, NodeAddress                   string
	// EtcdTrust identifies the CAs in EtcdCAFile. A process reads the file when it starts, so a
	// process that uses it is restarted when EtcdTrust changes.
	EtcdTrust string
}

// byName returns all variables.
func (v Variables) byName() map[string]string {
	return map[string]string{
		"ETCD_SERVERS": v.EtcdServers, "ETCD_CAFILE": v.EtcdCAFile, "ETCD_CERTFILE": v.EtcdCertFile, "ETCD_KEYFILE": v.EtcdKeyFile,
		"NODE_ID": v.NodeID, "NODE_ADDRESS": v.NodeAddress,
	}
}

// VariableNames returns the names of all variables.
func VariableNames() []string {
	return []string{"ETCD_SERVERS", "ETCD_CAFILE", "ETCD_CERTFILE", "ETCD_KEYFILE", "NODE_ID", "NODE_ADDRESS"}
}

// samples returns values to check services before the real values are known.
func samples() Variables {
	return Variables{
		EtcdServers: "https://192.0.2.1:2379", EtcdCAFile: "/ca", EtcdCertFile: "/cert", EtcdKeyFile: "/key",
		NodeID: "node", NodeAddress: "192.0.2.1",
	}
}

// Expand returns the services with their variables replaced. The services were loaded, so each
// variable is known.
func Expand(all []Service, v Variables) ([]Service, error) {
	values := v.byName()
	values[trustValue] = v.EtcdTrust
	out := slices.Clone(all)
	for i := range out {
		if unknown := out[i].expand(values); len(unknown) > 0 {
			return nil, fmt.Errorf("service %q: unknown variable $(%s)", out[i].Name, unknown[0])
		}
	}
	return out, nil
}

// trustValue is no variable: $(EtcdTrust) is not a known name in files.
const trustValue = "EtcdTrust"

// usesCA reports whether a process uses the file of etcd's CA.
func usesCA(p Process) bool { return contains(p, "$(ETCD_CAFILE)") }

func contains(p Process, text string) bool {
	return slices.ContainsFunc(slices.Concat(p.Command, p.Env), func(each string) bool { return strings.Contains(each, text) })
}

// UseServers reports whether one of these services, with its variables, uses the servers of etcd.
func UseServers(all []Service) bool {
	return slices.ContainsFunc(all, func(s Service) bool { return s.Process != nil && contains(*s.Process, "$(ETCD_SERVERS)") })
}

// expand replaces all variables of a service, in copies of its slices and pointers. It returns the
// unknown names.
func (s *Service) expand(values map[string]string) (unknown []string) {
	text := func(t *string) {
		var missing []string
		*t, missing = expand(*t, values)
		unknown = append(unknown, missing...)
	}
	list := func(l *[]string) {
		*l = slices.Clone(*l)
		for i := range *l {
			text(&(*l)[i])
		}
	}
	if s.Process != nil {
		p := *s.Process
		s.Process = &p
		if usesCA(p) {
			p.Trust = values[trustValue]
		}
		list(&p.Command)
		list(&p.Env)
	}
	if s.Readiness == nil {
		return unknown
	}
	r := *s.Readiness
	s.Readiness = &r
	if r.HTTPGet != nil {
		get := *r.HTTPGet
		r.HTTPGet = &get
		text(&get.URL)
		text(&get.CAFile)
	}
	if r.TCPSocket != nil {
		socket := *r.TCPSocket
		r.TCPSocket = &socket
		text(&socket.Address)
	}
	if r.Exec != nil {
		program := *r.Exec
		r.Exec = &program
		list(&program.Command)
	}
	return unknown
}

// expand replaces $(NAME) in a text as Kubernetes does in a container: $$ is a dollar sign, so
// $$(NAME) is not replaced, and a dollar sign before any other text stays. It returns the names
// without a value.
func expand(s string, values map[string]string) (out string, unknown []string) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), unknown
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			s = after[1:]
		case !strings.HasPrefix(after, "(") || !closed:
			b.WriteByte('$')
			s = after
		default:
			value, known := values[name]
			if !known {
				unknown = append(unknown, name)
			}
			b.WriteString(value)
			s = rest
		}
	}
}

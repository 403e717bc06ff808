package service

import (
	"fmt"
	"slices"
	"strings"
)

// Variables are the values of $(NAME) in services.
type Variables struct {
	// EtcdServers is a list with commas, as kube-apiserver has it.
	EtcdServers                           string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	NodeID, NodeAddress                   string
	// EtcdTrust says which CAs EtcdCAFile has. A process reads the file at its start, so one that
	// uses it is started again when this changes.
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

// samples are values with which services are checked before the real ones are known.
func samples() Variables {
	return Variables{
		EtcdServers: "https://192.0.2.1:2379", EtcdCAFile: "/ca", EtcdCertFile: "/cert", EtcdKeyFile: "/key",
		NodeID: "node", NodeAddress: "192.0.2.1",
	}
}

// Expand returns the services with the values of the variables. The services were loaded, so
// each variable is known.
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

// trustValue is no variable: the name of one has other characters.
const trustValue = "EtcdTrust"

// usesCA reports whether a process has the file of etcd's CA.
func usesCA(p Process) bool {
	return slices.ContainsFunc(slices.Concat(p.Command, p.Env), func(text string) bool { return strings.Contains(text, "$(ETCD_CAFILE)") })
}

// expand replaces all variables of a service, in copies of what it points to. It returns the
// names that are unknown.
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
// $$(NAME) is not replaced, and a dollar sign before anything else is one. It returns the names
// that have no value.
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

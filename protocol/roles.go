package protocol

import (
	"fmt"
	"strings"
)

// Roles of a node. The zero value: none.
type Roles struct {
	Controller bool // kubernetes_controller: it runs an apiserver
	Worker     bool // kubernetes_worker
	Consensus  bool // consensus_member: it runs an etcd member
}

// The names of the roles, as people write and read them.
const (
	RoleController = "kubernetes_controller"
	RoleWorker     = "kubernetes_worker"
	RoleConsensus  = "consensus_member"
)

// RoleNames lists the names of all roles.
func RoleNames() []string { return []string{RoleController, RoleWorker, RoleConsensus} }

// Names returns the names of the roles, in the order of RoleNames; never nil.
func (r Roles) Names() []string {
	out := []string{}
	for _, role := range []struct {
		has  bool
		name string
	}{{r.Controller, RoleController}, {r.Worker, RoleWorker}, {r.Consensus, RoleConsensus}} {
		if role.has {
			out = append(out, role.name)
		}
	}
	return out
}

// With returns the union of r and more.
func (r Roles) With(more Roles) Roles {
	return Roles{Controller: r.Controller || more.Controller, Worker: r.Worker || more.Worker, Consensus: r.Consensus || more.Consensus}
}

// Without returns the roles in r that are not in less.
func (r Roles) Without(less Roles) Roles {
	return Roles{Controller: r.Controller && !less.Controller, Worker: r.Worker && !less.Worker, Consensus: r.Consensus && !less.Consensus}
}

// ParseRoles returns the roles of these names. The error names the first
// unknown one.
func ParseRoles(names []string) (Roles, error) {
	var out Roles
	for _, name := range names {
		switch name {
		case RoleController:
			out.Controller = true
		case RoleWorker:
			out.Worker = true
		case RoleConsensus:
			out.Consensus = true
		default:
			return Roles{}, fmt.Errorf("unknown role %q; want some of %s", name, strings.Join(RoleNames(), ", "))
		}
	}
	return out, nil
}

// ControllerAlone reports whether a record with these roles may be deleted without an
// administrator. If people took the controller role away, only the record keeps that
// decision. Members of etcd count on a consensus member.
func (r Roles) ControllerAlone() bool { return r.Controller && !r.Consensus }

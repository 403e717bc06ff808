package main

import (
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi"
)

// cluster is the line about the members that the sidecars run; empty with an etcd
// that runs elsewhere, about which ETCD says everything.
func (t table) cluster(c httpapi.ClusterReport) string {
	if c.State == "" { // the answer of an older sidecar
		return ""
	}
	for _, change := range c.Transitions {
		if change.To == "ConnectingExternal" {
			return ""
		}
	}
	out := c.State + t.since(c.Since)
	if c.Error != "" {
		out += ": " + c.Error
	}
	var members []string
	for _, m := range c.Members {
		members = append(members, t.member(m))
	}
	if len(members) > 0 {
		out += "; members: " + strings.Join(members, ", ")
	}
	return out
}

func (t table) member(m httpapi.ClusterMemberReport) string {
	name := m.Node
	if name == "" {
		name = m.ID
	}
	out := name + " " + m.Address + t.details(" %s", m.ID)
	if m.Leader {
		out += " (leads etcd)"
	}
	if m.Learner {
		out += " (learner)"
	}
	switch {
	case !m.Healthy && m.Problem != "":
		out += " (not healthy" + t.since(m.Since) + ": " + m.Problem + ")"
	case !m.Healthy:
		out += " (not healthy)"
	}
	return out
}

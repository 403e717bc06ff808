package main

import "github.com/lockstep-dev/lockstep/httpapi"

// cluster has the state, and a line for each member that the sidecars run; nothing with an
// etcd that runs elsewhere, about which ETCD says everything.
func (t table) cluster(c httpapi.ClusterReport) []string {
	if c.State == "" { // the answer of an older sidecar
		return nil
	}
	for _, change := range c.Transitions {
		if change.To == "ConnectingExternal" {
			return nil
		}
	}
	out := c.State + t.since(c.Since)
	if c.Error != "" {
		out += ": " + c.Error
	}
	all := []string{out}
	for _, m := range c.Members {
		all = append(all, t.member(m))
	}
	return all
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

package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/report"
)

// cluster shows the state, and a line for each member that the sidecars run; nothing with an etcd that runs
// elsewhere, which the row ETCD describes.
func (t Status) cluster(c report.Cluster) []string {
	if c.State == "" { // the answer of an older sidecar
		return nil
	}
	if slices.ContainsFunc(c.Transitions, func(t report.Transition) bool { return t.To == "ConnectingExternal" }) {
		return nil
	}
	all := []string{c.State + t.since(c.Since) + terminal.Prefixed(": ", c.Error)}
	for _, m := range c.Members {
		all = append(all, t.member(m))
	}
	if c.Snapshots.EverySeconds > 0 {
		all = append(all, t.snapshots(c.Snapshots))
	}
	if c.Rotation.Phase != "" {
		all = append(all, t.rotation(c.Rotation))
	}
	return all
}

// rotation reports the progress in the replacement of the CA, or that it must be done again.
func (t Status) rotation(r report.Rotation) string {
	if r.Phase == "Ended" {
		out := "CA replaced" + t.since(r.Since)
		if len(r.Lost) > 0 {
			out += "; removed meanwhile: " + strings.Join(r.Lost, ", ") + ", which may have the new key: type again: sidecar cluster rotate-ca --yes"
		}
		return out
	}
	return "CA is being replaced: " + r.Phase + t.since(r.Since) + terminal.Prefixed(", waits for ", strings.Join(r.WaitsFor, ", ")) +
		terminal.Prefixed(", turn of ", r.Turn) + terminal.Prefixed(": ", r.Problem)
}

// snapshots reports the age of this node's newest snapshot.
func (t Status) snapshots(s report.Snapshots) string {
	out := "no snapshot of this node yet"
	if !s.Newest.IsZero() {
		out = "newest snapshot of this node saved " + t.ago(s.Newest) + t.details(" (%s)", s.File)
	}
	return out + terminal.Prefixed("; the last attempt failed: ", s.Problem)
}

func (t Status) member(m report.Member) string {
	out := cmp.Or(m.Node, m.ID) + " " + m.Address + t.details(" %s", m.ID) +
		terminal.When(m.Leader, " (leads etcd)") + terminal.When(m.Learner, " (learner)")
	switch {
	case !m.Healthy && m.Problem != "":
		out += " (not healthy" + t.since(m.Since) + ": " + m.Problem + ")"
	case !m.Healthy:
		out += " (not healthy)"
	}
	return out + terminal.Prefixed(", database ", databaseText(m))
}

// databaseText reports how much of its quota the database of a member uses.
func databaseText(m report.Member) string {
	if m.Quota == 0 {
		return "" // it does not answer, or an older sidecar does not say
	}
	share := "below 1 %"
	if n := (200*m.DBSize + m.Quota) / (2 * m.Quota); n > 0 { // DBSize was rounded down, to a whole number of bytes
		share = fmt.Sprintf("%d %%", n)
	}
	return share + " of " + terminal.Bytes(m.Quota)
}

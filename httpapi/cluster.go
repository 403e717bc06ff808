package httpapi

import (
	"cmp"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Cluster describes how this sidecar joined its etcd cluster, and the members that the sidecars run themselves
// (docs/clusters.md).
type Cluster struct {
	State string    // New, ..., Running, Failed; empty: not known
	Since time.Time // when State last changed
	// Transitions are the changes of State, the oldest first.
	Transitions []ClusterTransition
	// Problem is why State is Failed, or the reason of its wait; empty: none.
	Problem string
	// Embedded: this node runs a member of etcd itself.
	Embedded bool
	// MemberProblem is why the member of this node cannot be used now; empty: it can.
	MemberProblem string
	// Members are all members that sidecars run, as this node knows them.
	Members []ClusterMember
	// Rotation is the replacement of the CA of that etcd.
	Rotation ClusterRotation
	// Snapshots are the ones that this node saves by itself.
	Snapshots ClusterSnapshots
}

// ClusterSnapshots are snapshots of etcd that a node saves by itself (docs/clusters.md#scheduled).
type ClusterSnapshots struct {
	Every   time.Duration // 0: it saves none
	Kept    int           // how many exist
	Newest  time.Time     // of the newest one; zero: none exists
	File    string        // the newest one
	Problem string        // why the last attempt failed; empty: it did not
}

// ClusterRotation is a replacement of the CA (docs/protocol.md#rotation).
type ClusterRotation struct {
	Phase    string // empty: no rotation ever began; Requested, Trusting, Issuing, Dropping, or Ended
	Since    time.Time
	Turn     string   // the node that restarts the programs that use the CA; empty: none
	WaitsFor []string // the nodes whose part of the phase is missing
	Lost     []string // removed nodes that may know the new CA's key
	Problem  string   // why this node's part is missing
}

// ClusterTransition is a change of the state.
type ClusterTransition struct {
	From, To string
	At       time.Time
}

// ClusterMember is an etcd member that a sidecar runs.
type ClusterMember struct {
	ID      string // of etcd, in hexadecimal
	Node    string // the node ID; empty: not known
	Address string
	Learner bool // it is not a voter yet
	Leader  bool // it leads the etcd cluster
	Healthy bool // it answered this sidecar, and knows a leader
	// Problem is why it is not healthy, and Since is when this sidecar first noticed.
	Problem string
	Since   time.Time
	// Trouble describes the problem of a voter and its remedy, as obstacles and warnings do.
	Trouble string
}

// voters returns the members that vote.
func (c Cluster) voters() []protocol.NodeVoter {
	var out []protocol.NodeVoter
	for _, m := range c.Members {
		if !m.Learner {
			out = append(out, protocol.NodeVoter{Name: cmp.Or(m.Node, m.ID), Address: m.Address, Healthy: m.Healthy, Trouble: m.Trouble})
		}
	}
	return out
}

// ClusterReport is Cluster in /status.
type ClusterReport struct {
	State       string                    `json:"state"`
	Since       *time.Time                `json:"since"`
	Transitions []ClusterTransitionReport `json:"transitions"`
	Error       string                    `json:"error"`
	Members     []ClusterMemberReport     `json:"members"`
	// CARotation is the replacement of the CA.
	CARotation CARotationReport `json:"caRotation"`
	// Snapshots are the ones that this node saves by itself.
	Snapshots SnapshotsReport `json:"snapshots"`
}

// SnapshotsReport describes the snapshots of etcd that a node saves by itself.
type SnapshotsReport struct {
	EverySeconds float64    `json:"everySeconds"` // 0: it saves none
	Kept         int        `json:"kept"`
	Newest       *time.Time `json:"newest"` // when; null: none exists
	File         string     `json:"file"`
	Problem      string     `json:"problem"`
}

// CARotationReport is a replacement of the CA.
type CARotationReport struct {
	Phase    string     `json:"phase"`
	Since    *time.Time `json:"since"`
	Turn     string     `json:"turn"`
	WaitsFor []string   `json:"waitsFor"`
	Lost     []string   `json:"lost"`
	Problem  string     `json:"problem"`
}

// ClusterTransitionReport is a change of the state.
type ClusterTransitionReport struct {
	From string     `json:"from"`
	To   string     `json:"to"`
	At   *time.Time `json:"at"`
}

// ClusterMemberReport is an etcd member that a sidecar runs.
type ClusterMemberReport struct {
	ID      string `json:"id"`
	Node    string `json:"node"`
	Address string `json:"address"`
	Learner bool   `json:"learner"`
	Leader  bool   `json:"leader"`
	Healthy bool   `json:"healthy"`
	// Problem is why it is not healthy.
	Problem string     `json:"problem"`
	Since   *time.Time `json:"since"` // when this sidecar first noticed; null: it is healthy
}

func clusterReport(c Cluster) ClusterReport {
	out := ClusterReport{
		State: c.State, Since: timestamp(c.Since), Error: c.Problem,
		Transitions: make([]ClusterTransitionReport, 0, len(c.Transitions)),
		Members:     make([]ClusterMemberReport, 0, len(c.Members)),
	}
	out.CARotation = CARotationReport{
		Phase: c.Rotation.Phase, Since: timestamp(c.Rotation.Since), Turn: c.Rotation.Turn, Problem: c.Rotation.Problem,
		WaitsFor: append([]string{}, c.Rotation.WaitsFor...), Lost: append([]string{}, c.Rotation.Lost...),
	}
	s := c.Snapshots
	out.Snapshots = SnapshotsReport{
		EverySeconds: s.Every.Seconds(), Kept: s.Kept, Newest: timestamp(s.Newest), File: s.File, Problem: s.Problem,
	}
	if out.Error == "" {
		out.Error = c.MemberProblem
	}
	for _, t := range c.Transitions {
		out.Transitions = append(out.Transitions, ClusterTransitionReport{From: t.From, To: t.To, At: timestamp(t.At)})
	}
	for _, m := range c.Members {
		out.Members = append(out.Members, ClusterMemberReport{
			ID: m.ID, Node: m.Node, Address: m.Address, Learner: m.Learner, Leader: m.Leader,
			Healthy: m.Healthy, Problem: m.Problem, Since: timestamp(m.Since),
		})
	}
	return out
}

// memberCheck shows the member of this node in /readyz. It never fails: this node
// reaches etcd through the other members too, and an etcd that does not answer
// closes no gate (docs/protocol.md#gate).
func memberCheck(c Cluster) check {
	out := check{Name: checkMember, OK: true}
	switch {
	case c.MemberProblem != "":
		out.Note = oneLine("the etcd member of this node cannot be used: " + c.MemberProblem)
	case c.Problem != "":
		out.Note = oneLine("the etcd member of this node is not in use yet: " + c.Problem)
	}
	return out
}

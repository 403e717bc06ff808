package bundles

import (
	"fmt"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/rollout"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/report"
)

// PlanReport is a plan as `plan -o json` prints it. Lists are never null.
type PlanReport struct {
	Bundle    bundleReport     `json:"bundle"`
	Clean     bool             `json:"clean"`
	Now       momentReport     `json:"now"`
	Steps     []stepReport     `json:"steps"`
	Obstacles []obstacleReport `json:"obstacles"`
	Objects   *objectsReport   `json:"objects"` // null: the API was not read
	Turns     []string         `json:"turns"`   // those whose work is a step of this rollout

	begin string // the command that begins the simulated rollback; empty: none was simulated, or it is under way
	turn  string // the command that takes the turn of a node
}

type bundleReport struct {
	Name                 string `json:"name"`
	Release              string `json:"release"`
	Version              string `json:"version"`
	MinReconcilerRelease string `json:"minReconcilerRelease"`
	MinAPIServerRelease  string `json:"minApiserverRelease"`
	APIServerVersion     string `json:"apiserverVersion"` // empty: any
	Digest               string `json:"digest"`
}

// momentReport is the state between two steps.
type momentReport struct {
	State                    string       `json:"state"`   // empty: there is no status
	Version                  string       `json:"version"` // of the status
	MinimumCompatibleRelease string       `json:"minimumCompatibleRelease"`
	Leader                   string       `json:"leader"` // empty: none, or unknown
	Nodes                    []gateReport `json:"nodes"`
	Blockers                 []waitReport `json:"blockers"` // the nodes that the leader waits for

	// Of the present only, as in /status.
	UpgradeReady     *bool                        `json:"upgradeReady,omitempty"`
	UpgradeObstacles report.List[report.Obstacle] `json:"upgradeObstacles,omitempty"`
	UpgradeNotes     report.List[string]          `json:"upgradeNotes,omitempty"`
}

type gateReport struct {
	ID      string `json:"id"`
	Release string `json:"release"`
	Alive   bool   `json:"alive"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type waitReport struct {
	ID      string `json:"id"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// stepReport is one step of the rollout.
type stepReport struct {
	Kind    string        `json:"kind"` // upgrade, reload, start
	Node    string        `json:"node"` // of upgrade
	From    string        `json:"from"`
	To      string        `json:"to"`
	While   *momentReport `json:"while"` // of upgrade: while the node is stopped
	After   momentReport  `json:"after"`
	Events  []string      `json:"events"`
	Changed bool          `json:"objectsChanged"` // the objects of the bundle are applied
	Removed bool          `json:"objectsRemoved"` // objects missing from the bundle are removed
}

// goesBack reports whether a node gets an older release.
func (s stepReport) goesBack() bool {
	from, before := semver.ParseRelease(s.From)
	to, after := semver.ParseRelease(s.To)
	return s.Kind == "upgrade" && before == nil && after == nil && to.Compare(from) < 0
}

type obstacleReport struct {
	Kind    string `json:"kind"`
	Node    string `json:"node"` // empty: not one node alone
	Message string `json:"message"`
}

// objectsReport describes the changes of the objects.
type objectsReport struct {
	Counts    map[string]int `json:"counts"` // by action
	PruneHeld string         `json:"pruneHeld"`
	Differing []ObjectReport `json:"differing"` // all but the unchanged
	failing   int            // how many of the required ones fail
}

// ObjectReport is an object that differs, fails, or is held.
type ObjectReport struct {
	Action  string `json:"action"`
	Object  string `json:"object"`
	Message string `json:"message"`
}

// The kinds of obstacles for objects.
const (
	obstacleObjects = "ObjectsFail"
	obstaclePrune   = "RemovalHeld"
)

// newPlanReport simulates a rollout. The flags of etcd are added to the commands in the messages.
func newPlanReport(b *bundle.Bundle, in rollout.Input, objects *objectsReport, flags string) PlanReport {
	f := rollout.Simulate(in)
	upgradeReady := f.Upgrade.Ready()
	out := PlanReport{
		Bundle: newBundleReport(b),
		Now:    newMomentReport(f.Now, flags), Steps: []stepReport{}, Obstacles: []obstacleReport{}, Objects: objects,
	}
	out.Now.UpgradeReady = &upgradeReady
	out.Now.UpgradeObstacles, out.Now.UpgradeNotes = httpapi.UpgradeObstacles(f.Upgrade, flags), httpapi.UpgradeNotes(f.Upgrade, flags)
	for _, m := range f.Moves {
		out.Steps = append(out.Steps, newStepReport(m, flags))
	}
	for _, o := range f.Obstacles {
		out.Obstacles = append(out.Obstacles, obstacleReport{string(o.Reason), o.Subject, httpapi.Pasteable(o.Message, flags)})
	}
	out.Obstacles = append(out.Obstacles, objects.obstacles(b)...)
	out.Turns = append([]string{}, f.Turns...)
	out.Clean = len(out.Obstacles) == 0
	return out
}

func newStepReport(m rollout.Move, flags string) stepReport {
	out := stepReport{
		Kind: string(m.Kind), Node: string(m.Node), From: m.From.String(), To: m.To.String(), After: newMomentReport(m.After, flags),
		Events: []string{}, Changed: m.Changed, Removed: m.Removed,
	}
	for _, event := range m.Events {
		out.Events = append(out.Events, httpapi.Pasteable(event, flags))
	}
	switch m.Kind {
	case rollout.MoveUpgrade:
		while := newMomentReport(m.While, flags)
		out.While = &while
	case rollout.MoveStart:
		out.From = ""
	case rollout.MoveReload:
	}
	return out
}

func newMomentReport(m rollout.Moment, flags string) momentReport {
	out := momentReport{Leader: string(m.Leader), Nodes: []gateReport{}, Blockers: []waitReport{}}
	if s := m.Status.Status; m.Status.Kind == protocol.StatusPresent {
		out.State, out.Version, out.MinimumCompatibleRelease = s.State.String(), s.Version.String(), s.MinCompatible.String()
	}
	for _, g := range m.Gates {
		out.Nodes = append(out.Nodes, gateReport{
			ID: string(g.Node), Release: g.Release.String(), Alive: g.Alive,
			Ready: g.Verdict.Ready, Reason: string(g.Verdict.Reason), Message: httpapi.Pasteable(g.Verdict.Message, flags),
		})
	}
	for _, b := range m.Step.Blockers {
		out.Blockers = append(out.Blockers, waitReport{string(b.Node), string(b.Reason), httpapi.Pasteable(b.Message, flags)})
	}
	return out
}

func newObjectsReport(p report.Preview) *objectsReport {
	out := &objectsReport{Counts: map[string]int{}, PruneHeld: p.PruneHeld, Differing: []ObjectReport{}}
	for _, a := range report.Actions() {
		out.Counts[string(a)] = p.Count(a)
		for _, o := range p.Objects {
			if o.Action != a || a == report.ActionNone {
				continue
			}
			out.Differing = append(out.Differing, ObjectReport{Action: string(a), Object: o.String(), Message: o.Message})
			if a == report.ActionFail && o.Required {
				out.failing++
			}
		}
	}
	return out
}

// held counts the objects that are missing from the bundle and stay because a brake holds their removal. A nil
// report counts none.
func (r *objectsReport) held() int {
	if r == nil || r.PruneHeld == "" {
		return 0
	}
	return r.Counts[string(report.ActionHold)]
}

// obstacles returns why the objects keep the status from becoming DONE. A nil report: none.
func (r *objectsReport) obstacles(b *bundle.Bundle) []obstacleReport {
	var out []obstacleReport
	if r == nil {
		return nil
	}
	if r.failing > 0 {
		out = append(out, obstacleReport{Kind: obstacleObjects, Message: fmt.Sprintf(
			"the API server rejects %s now; the status cannot become DONE while one fails: see OBJECTS", terminal.Count(r.failing, "object"))})
	}
	if b.PruneImmediately && r.Counts[string(report.ActionHold)] > 0 {
		out = append(out, obstacleReport{Kind: obstaclePrune, Message: "the bundle has prunePolicy: Immediately, but removals are held: " + r.PruneHeld})
	}
	return out
}

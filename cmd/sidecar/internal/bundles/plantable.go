package bundles

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// planTable prints a plan for people. The answer is last, with the steps of a rollback.
type planTable struct{ terminal.Printer }

func (t planTable) write(r PlanReport) {
	b := r.Bundle
	t.Rows([][]string{
		{"BUNDLE", fmt.Sprintf("%s %s, minReconcilerRelease %s, minApiserverRelease %s", b.Name, b.Version, b.MinReconcilerRelease, b.MinAPIServerRelease)},
		{"NOW", nowText(r.Now)},
	})
	if len(r.Steps) > 0 {
		fmt.Fprintln(t.W)
		t.Rows(stepRows(r))
		if events := eventRows(r); len(events) > 0 {
			fmt.Fprintln(t.W)
			t.Rows(events)
		}
	}
	t.objectsOf(r)
	t.Section("OBSTACLES", obstacleRows(r.Obstacles))
	t.Section("NOTES", noteRows(r))
	fmt.Fprintln(t.W)
	t.Rows([][]string{{conclusion(r)}})
	t.Rows(rollbackRows(r))
}

func nowText(m momentReport) string {
	out := statusText(m) + ", " + readyText(&m) + " ready"
	if m.Leader != "" {
		out += ", " + m.Leader + " leads"
	}
	if m.UpgradeReady != nil && !*m.UpgradeReady {
		out += ", not ready for the next upgrade"
	}
	return out
}

func statusText(m momentReport) string {
	if m.State == "" {
		return "no status"
	}
	return fmt.Sprintf("%s %s min %s", m.State, m.Version, m.MinimumCompatibleRelease)
}

// readyText returns "2 of 3".
func readyText(m *momentReport) string {
	if m == nil {
		return "-"
	}
	ready := 0
	for _, n := range m.Nodes {
		if n.Ready {
			ready++
		}
	}
	return fmt.Sprintf("%d of %d", ready, len(m.Nodes))
}

func stepRows(r PlanReport) [][]string {
	rows := [][]string{{"STEP", "NODE", "RELEASE", "READY DURING", "READY AFTER", "LEADER AFTER", "STATUS AFTER", "WAITS FOR"}}
	for i, s := range r.Steps {
		rows = append(rows, []string{
			strconv.Itoa(i + 1), nodeText(s), releaseText(s), readyText(s.While), readyText(&s.After),
			terminal.OrDash(s.After.Leader), statusAfter(r, s), terminal.OrDash(waitsFor(s.After)),
		})
	}
	return rows
}

// statusAfter is the status that a step leads to. While an object fails, the leader does not
// write that the objects of the bundle are in place.
func statusAfter(r PlanReport, s stepReport) string {
	if r.Objects != nil && r.Objects.failing > 0 && s.After.State == protocol.Done.String() && s.After.Version == r.Bundle.Version {
		return "not DONE: see OBSTACLES"
	}
	return statusText(s.After)
}

func nodeText(s stepReport) string {
	if s.Kind == "reload" {
		return "(all)"
	}
	return s.Node
}

func releaseText(s stepReport) string {
	switch {
	case s.Kind == "start":
		return s.To
	case s.Kind == "reload":
		return s.To + ", new files"
	case s.From == s.To:
		return s.To + ", restart"
	}
	return s.From + " -> " + s.To
}

func waitsFor(m momentReport) string {
	var ids []string
	for _, b := range m.Blockers {
		ids = append(ids, b.ID)
	}
	return strings.Join(ids, ", ")
}

// eventRows are the events of each step.
func eventRows(r PlanReport) [][]string {
	var rows [][]string
	for i, s := range r.Steps {
		number := strconv.Itoa(i + 1)
		for _, event := range append(s.Events, waits(s.After)...) {
			rows = append(rows, []string{number, event})
			number = ""
		}
	}
	return rows
}

// waits names the nodes that the leader waits for, and the reasons.
func waits(m momentReport) []string {
	var out []string
	for _, b := range m.Blockers {
		out = append(out, fmt.Sprintf("%s waits for %s: %s", m.Leader, b.ID, b.Message))
	}
	return out
}

func (t planTable) objectsOf(r PlanReport) {
	if r.Objects == nil {
		t.Title("OBJECTS  not compared: set --kubeconfig")
		return
	}
	var counts []string
	for _, a := range report.Actions() {
		if n := r.Objects.Counts[string(a)]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, a))
		}
	}
	t.Title("OBJECTS  " + cmp.Or(strings.Join(counts, ", "), "none") + when(r))
	t.Rows(objectRows(r.Objects.Differing))
}

// objectRows are the rows of objects. If many share one reason, it is printed once.
func objectRows(objects []ObjectReport) (rows [][]string) {
	for i, o := range objects {
		message := o.Message
		if i > 0 && message != "" && message == objects[i-1].Message {
			message = "as above"
		}
		rows = append(rows, []string{o.Action, o.Object, message})
	}
	return rows
}

// when names the steps in which objects are written and deleted.
func when(r PlanReport) string {
	var out []string
	changed := slices.IndexFunc(r.Steps, func(s stepReport) bool { return s.Changed })
	if changed >= 0 {
		out = append(out, fmt.Sprintf("written in step %d", changed+1))
	}
	removed := slices.IndexFunc(r.Steps, func(s stepReport) bool { return s.Removed })
	if removed >= 0 && r.Objects.Counts[string(report.ActionPrune)] > 0 {
		out = append(out, fmt.Sprintf("deleted in step %d", removed+1))
	}
	held := slices.ContainsFunc(r.Obstacles, func(o obstacleReport) bool { return o.Kind == string(warn.OtherBundle) && o.Node == "" })
	if len(out) == 0 && held {
		out = append(out, "nothing of that while the leader holds")
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, ", ")
}

func obstacleRows(obstacles []obstacleReport) [][]string {
	var rows [][]string
	for _, o := range obstacles {
		rows = append(rows, []string{o.Kind, terminal.OrDash(o.Node), o.Message})
	}
	return rows
}

// noteRows are the turns that belong to the rollout, and the costs of each upgrade in a fleet of this size.
func noteRows(r PlanReport) [][]string {
	var rows [][]string
	for _, turn := range r.Turns {
		rows = append(rows, []string{turn})
	}
	if !slices.ContainsFunc(r.Steps, func(s stepReport) bool { return s.Kind == "upgrade" }) {
		return rows
	}
	for _, note := range r.Now.UpgradeNotes {
		rows = append(rows, []string{note})
	}
	return rows
}

// goesBack reports whether a clean plan is a rollback.
func goesBack(r PlanReport) bool {
	return r.begin != "" || slices.ContainsFunc(r.Steps, stepReport.goesBack)
}

// rollbackRows are the steps of a clean rollback, for people to type and to do.
func rollbackRows(r PlanReport) [][]string {
	if !r.Clean || len(r.Steps) == 0 || r.Steps[0].Kind == "start" || !goesBack(r) {
		return nil
	}
	var rows [][]string
	step := func(text string) { rows = append(rows, []string{strconv.Itoa(len(rows) + 1), text}) }
	if r.begin != "" {
		step("type: " + r.begin)
	}
	if len(r.Now.Nodes) == 1 { // it gets no turn
		step("stop the only node, and start it with this bundle")
		return rows
	}
	step("on one node at a time: stop it, start it with this bundle, and wait until it is ready")
	return append(rows, []string{"", "or on all nodes at once, where COMMAND stops and starts one:"}, []string{"", r.turn})
}

func conclusion(r PlanReport) string {
	switch {
	case !r.Clean:
		return "The rollout is NOT clean: see OBSTACLES."
	case len(r.Steps) == 0 && r.Objects.held() > 0:
		return fmt.Sprintf("All nodes run this bundle, but %s %s not removed: %s.", terminal.Count(r.Objects.held(), "object"), terminal.Are(r.Objects.held()), r.Objects.PruneHeld)
	case len(r.Steps) == 0:
		return "Nothing to do: all nodes run this bundle."
	case r.Steps[0].Kind == "start":
		return "A new cluster: the first node creates the objects, and is ready when they exist."
	case goesBack(r):
		return "The rollback is clean. What to do:"
	case slices.ContainsFunc(r.Steps, func(s stepReport) bool { return s.Kind == "upgrade" }):
		return "The rollout is clean. Upgrade one node at a time, and wait until it is ready before the next."
	}
	return "No node has to be upgraded. All nodes run this release: the objects change as soon as the bundle directory does."
}

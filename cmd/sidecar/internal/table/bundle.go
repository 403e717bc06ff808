package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// isOtherBundle reports whether a warning of this node is about its bundle, which differs from the objects'
// bundle.
func isOtherBundle(w report.Warning) bool {
	return w.Reason == string(warn.OtherBundle) && w.Subject == ""
}

// otherBundle is the first row if this node runs another bundle than the one applied to the objects. It says all that a
// leader's step does: the rows STEP and WARNINGS refer to it.
func otherBundle(r report.Status) [][]string {
	i := slices.IndexFunc(r.Warnings, isOtherBundle)
	if i < 0 {
		return nil
	}
	text := strings.Replace(r.Warnings[i].Message, "it runs ", r.Node.ID+" runs ", 1)
	if holdsForBundle(r) {
		text = r.Election.Step.Message
	}
	return [][]string{{"PROBLEM", "OTHER BUNDLE: " + text}}
}

// holdsForBundle reports whether this node leads, and leaves the objects of another bundle alone. The warning that says so
// may come a moment later than the step.
func holdsForBundle(r report.Status) bool {
	return r.Election.Step.Rule == string(protocol.HoldForBundle) && slices.ContainsFunc(r.Warnings, isOtherBundle)
}

// stepRow is the row with the message of the step.
func stepRow(r report.Status) string {
	if holdsForBundle(r) {
		return "PROBLEM"
	}
	return "STEP"
}

// step describes what the leader does.
func (t Status) step(r report.Status) string {
	s := r.Election.Step
	text := s.Rule + t.details(" (%s)", s.Kind) + ": "
	if holdsForBundle(r) {
		return text + "it applies and repairs nothing (see PROBLEM)"
	}
	return text + s.Message + exceptions(r)
}

// sameProblem shortens the warning of another node that runs the same wrong bundle as this one.
func sameProblem(r report.Status, n report.FleetNode, w report.Warning) string {
	if isOtherBundle(w) && n.Bundle == r.Node.Bundle && slices.ContainsFunc(r.Warnings, isOtherBundle) {
		return "it runs the same bundle as this node (see PROBLEM)"
	}
	return w.Message
}

// bundle describes the bundle that this node runs.
func (t Status) bundle(n report.Node) string {
	parts := []string{n.Bundle, terminal.OrDash(n.BundleSource), terminal.ShortDigest(n.BundleDigest)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// replacement describes the replacement that people requested.
func (t Status) replacement(r *report.Replacement) string {
	if r == nil {
		return ""
	}
	asked := ""
	if !r.Since.IsZero() {
		asked = ", asked for " + t.ago(r.Since)
	}
	return fmt.Sprintf("the bundle %s by %s%s: %s", r.From, r.To, asked, r.Message)
}

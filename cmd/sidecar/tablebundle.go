package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// isOtherBundle reports whether a warning of this node is about its bundle, which differs from the objects'
// bundle.
func isOtherBundle(w report.Warning) bool {
	return w.Reason == string(protocol.OtherBundle) && w.Subject == ""
}

// otherBundle is the first row if this node runs another bundle than the one applied to the objects.
func otherBundle(r report.Status) [][]string {
	i := slices.IndexFunc(r.Warnings, isOtherBundle)
	if i < 0 {
		return nil
	}
	return [][]string{{"PROBLEM", "OTHER BUNDLE: " + strings.Replace(r.Warnings[i].Message, "it runs ", r.Node.ID+" runs ", 1)}}
}

// bundle describes the bundle that this node runs.
func (t table) bundle(n report.Node) string {
	parts := []string{n.Bundle, orDash(n.BundleSource), shortDigest(n.BundleDigest)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// replacement describes the replacement that people requested.
func (t table) replacement(r *report.Replacement) string {
	if r == nil {
		return ""
	}
	asked := ""
	if !r.Since.IsZero() {
		asked = ", asked for " + t.ago(r.Since)
	}
	return fmt.Sprintf("the bundle %s by %s%s: %s", r.From, r.To, asked, r.Message)
}

// bundlesDiffer reports whether the nodes and the objects are of bundles with more than one name.
func bundlesDiffer(r report.Status) bool {
	seen := r.Reconciler.Bundle
	for _, n := range r.Fleet.Nodes {
		if n.Bundle != "" && seen != "" && n.Bundle != seen {
			return true
		}
		if n.Bundle != "" {
			seen = n.Bundle
		}
	}
	return false
}

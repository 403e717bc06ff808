package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// isOtherBundle reports whether a warning of this node is about its bundle, which differs from the objects'
// bundle.
func isOtherBundle(w httpapi.WarningReport) bool {
	return w.Reason == string(protocol.OtherBundle) && w.Subject == ""
}

// otherBundle is the first row if this node runs another bundle than the one applied to the objects.
func otherBundle(r httpapi.Report) [][]string {
	i := slices.IndexFunc(r.Warnings, isOtherBundle)
	if i < 0 {
		return nil
	}
	return [][]string{{"PROBLEM", "OTHER BUNDLE: " + strings.Replace(r.Warnings[i].Message, "it runs ", r.Node.ID+" runs ", 1)}}
}

// bundle describes the bundle that this node runs.
func (t table) bundle(n httpapi.NodeReport) string {
	parts := []string{n.Bundle, orDash(n.BundleSource), shortDigest(n.BundleDigest)}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// replacement describes the replacement that people requested.
func (t table) replacement(r *httpapi.ReplacementReport) string {
	if r == nil {
		return ""
	}
	asked := ""
	if r.Since != nil {
		asked = ", asked for " + t.ago(r.Since)
	}
	return fmt.Sprintf("the bundle %s by %s%s: %s", r.From, r.To, asked, r.Message)
}

// bundlesDiffer reports whether the nodes and the objects are of bundles with more than one name.
func bundlesDiffer(r httpapi.Report) bool {
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

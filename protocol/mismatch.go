package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// Mismatch is a release whose nodes have different bundles.
type Mismatch struct {
	Release Release
	Digests []string            // sorted
	Nodes   map[string][]NodeID // by digest, sorted
}

// String names the nodes by digest.
func (m Mismatch) String() string {
	parts := make([]string, 0, len(m.Digests))
	for _, d := range m.Digests {
		names := make([]string, 0, len(m.Nodes[d]))
		for _, id := range m.Nodes[d] {
			names = append(names, string(id))
		}
		parts = append(parts, fmt.Sprintf("%s on %s", shortDigest(d), strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// shortDigest keeps enough of a digest to tell two of them apart.
func shortDigest(d string) string {
	const enough = len("sha256:") + 12
	if len(d) > enough {
		return d[:enough]
	}
	return d
}

// Mismatched returns the releases whose controllers have different digests,
// lowest first. A record without a digest does not count.
func Mismatched(f Fleet) []Mismatch {
	byRelease := map[Release]*Mismatch{}
	for _, r := range f.Records {
		if r.Problem != "" || !r.Node.Roles.Controller || r.Node.Digest == "" {
			continue
		}
		release := r.Node.Version.Release
		m := byRelease[release]
		if m == nil {
			m = &Mismatch{Release: release, Nodes: map[string][]NodeID{}}
			byRelease[release] = m
		}
		if m.Nodes[r.Node.Digest] == nil {
			m.Digests = append(m.Digests, r.Node.Digest)
		}
		m.Nodes[r.Node.Digest] = append(m.Nodes[r.Node.Digest], r.ID)
	}
	var out []Mismatch
	for _, m := range byRelease {
		if len(m.Digests) > 1 {
			slices.Sort(m.Digests)
			out = append(out, *m)
		}
	}
	slices.SortFunc(out, func(a, b Mismatch) int { return a.Release.Compare(b.Release) })
	return out
}

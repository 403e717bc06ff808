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
	var out []Mismatch
	for _, release := range differing(f) {
		m := Mismatch{Release: release, Nodes: map[string][]NodeID{}}
		for _, r := range f.Records {
			if r.hasDigest() && r.Node.Version.Release == release {
				if m.Nodes[r.Node.Digest] == nil {
					m.Digests = append(m.Digests, r.Node.Digest)
				}
				m.Nodes[r.Node.Digest] = append(m.Nodes[r.Node.Digest], r.ID)
			}
		}
		slices.Sort(m.Digests)
		out = append(out, m)
	}
	return out
}

func (r *Record) hasDigest() bool {
	return r.Problem == "" && r.Node.Roles.Controller && r.Node.Digest != ""
}

// differing returns the releases with more than one digest, sorted. Almost always there
// are none, and neighbours have the same digest: that has to cost little, because each
// sidecar asks whenever a record changes.
func differing(f Fleet) []Release {
	type content struct {
		release Release
		digest  string
	}
	var seen []content
	var out []Release
	var last content
	for _, r := range f.Records {
		now := content{r.Node.Version.Release, r.Node.Digest}
		if now == last || !r.hasDigest() || slices.Contains(seen, now) {
			continue
		}
		last = now
		other := slices.ContainsFunc(seen, func(c content) bool { return c.release == now.release })
		if other && !slices.Contains(out, now.release) {
			out = append(out, now.release)
		}
		seen = append(seen, now)
	}
	slices.SortFunc(out, Release.Compare)
	return out
}

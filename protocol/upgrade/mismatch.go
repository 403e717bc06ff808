package upgrade

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Mismatch is a release whose nodes run different bundles, services or kube-apiservers.
type Mismatch struct {
	Release protocol.Release
	// Bundle is the name of their bundles, if it is not the objects' name.
	Bundle string
	Values []string                     // digests or versions, sorted
	Nodes  map[string][]protocol.NodeID // by value, sorted
}

// String names the nodes by value.
func (m Mismatch) String() string {
	parts := make([]string, 0, len(m.Values))
	for _, v := range m.Values {
		parts = append(parts, fmt.Sprintf("%s on %s", shortDigest(v), strings.Join(protocol.NodeNames(m.Nodes[v]), ", ")))
	}
	return strings.Join(parts, "; ")
}

// odd returns the one node that differs from all others, if there are two or more of
// them; empty: no node is the odd one.
func (m Mismatch) odd() protocol.NodeID {
	if len(m.Values) != 2 {
		return ""
	}
	a, b := m.Nodes[m.Values[0]], m.Nodes[m.Values[1]]
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 1 && len(b) > 1 {
		return a[0]
	}
	return ""
}

// shortDigest keeps enough of a digest to tell two of them apart.
func shortDigest(d string) string {
	const enough = len("sha256:") + 12
	if strings.HasPrefix(d, "sha256:") && len(d) > enough {
		return d[:enough]
	}
	return d
}

// Mismatched returns the releases whose controllers registered different
// bundles, lowest first. A record without a digest does not count.
func Mismatched(f protocol.Fleet) []Mismatch { return mismatched(f, bundleOf) }

// MismatchedBundles is Mismatched among nodes whose bundles have one name: that names differ is
// OtherBundle. Bundles of the objects' name come first, with bundles without a name. Of another name no
// leader applies a bundle, until people let it replace the objects: they need to know before.
func MismatchedBundles(v protocol.StatusView, f protocol.Fleet) []Mismatch {
	names := []string{""}
	for _, r := range f.Records {
		if name := r.Node.Bundle; !slices.Contains(names, name) && protocol.ForeignBundle(v, name) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	nameOf := func(r *protocol.Record) string {
		if !slices.Contains(names, r.Node.Bundle) {
			return "" // the objects'
		}
		return r.Node.Bundle
	}
	var out []Mismatch
	for _, name := range names {
		found := mismatched(f, func(r *protocol.Record) string {
			if nameOf(r) != name {
				return ""
			}
			return bundleOf(r)
		})
		for _, m := range found {
			m.Bundle = name
			out = append(out, m)
		}
	}
	return out
}

// Bundles is the beginning of a message for people, about different bundles.
func (m Mismatch) Bundles() string {
	ofName := ""
	if m.Bundle != "" {
		ofName = " of the name " + m.Bundle
	}
	return fmt.Sprintf("nodes of release %s have different bundles%s: %s", m.Release, ofName, m)
}

// MismatchedServices returns the releases whose alive controllers run different services.
// A node that runs none does not count.
func MismatchedServices(f protocol.Fleet) []Mismatch { return mismatched(f, servicesOf) }

// MismatchedAPIServers returns the releases whose alive controllers run
// kube-apiservers of different versions. One whose version is unknown does not count.
func MismatchedAPIServers(f protocol.Fleet) []Mismatch { return mismatched(f, apiserverOf) }

func bundleOf(r *protocol.Record) string {
	if r.Problem != "" || !r.Node.Roles.Controller {
		return ""
	}
	return r.Node.Digest
}

func servicesOf(r *protocol.Record) string {
	if !r.AliveController() {
		return ""
	}
	return r.Presence.Services
}

func apiserverOf(r *protocol.Record) string {
	if !r.AliveController() {
		return ""
	}
	return r.Presence.APIServer
}

// runDifferences returns a warning for each release whose alive nodes run
// different services, or kube-apiservers of different versions
// (docs/protocol.md#upgrade-ready). Its subject is the odd node, if there is one.
func runDifferences(f protocol.Fleet) []protocol.Warning {
	var out []protocol.Warning
	for _, m := range MismatchedAPIServers(f) {
		out = append(out, protocol.Warning{Reason: warn.APIServersDiffer, Subject: string(m.odd()), Message: fmt.Sprintf(
			"nodes of release %s have kube-apiservers of different versions: %s; a gate compares releases alone, so give all these nodes the kube-apiserver of that release",
			m.Release, m)})
	}
	for _, m := range MismatchedServices(f) {
		out = append(out, protocol.Warning{Reason: warn.ServicesDiffer, Subject: string(m.odd()), Message: fmt.Sprintf(
			"nodes of release %s have different services: %s; give all these nodes the same files in --services, with $(NODE_ID) and $(NODE_ADDRESS) for what is the node's own",
			m.Release, m)})
	}
	return out
}

// mismatched returns the releases in which two nodes differ in their value. An empty
// value does not count.
func mismatched(f protocol.Fleet, valueOf func(*protocol.Record) string) []Mismatch {
	var out []Mismatch
	for _, release := range differing(f, valueOf) {
		m := Mismatch{Release: release, Nodes: map[string][]protocol.NodeID{}}
		for _, r := range f.Records {
			if v := valueOf(r); v != "" && r.Node.Version.Release == release {
				if m.Nodes[v] == nil {
					m.Values = append(m.Values, v)
				}
				m.Nodes[v] = append(m.Nodes[v], r.ID)
			}
		}
		slices.Sort(m.Values)
		out = append(out, m)
	}
	return out
}

// differing returns the releases with more than one value, sorted. Almost always there
// are none, and neighbours share a value: that case must be cheap, because each
// sidecar asks whenever a record changes.
func differing(f protocol.Fleet, valueOf func(*protocol.Record) string) []protocol.Release {
	type content struct {
		release protocol.Release
		value   string
	}
	var seen []content
	var out []protocol.Release
	var last content
	for _, r := range f.Records {
		now := content{r.Node.Version.Release, valueOf(r)}
		if now == last || now.value == "" || slices.Contains(seen, now) {
			continue
		}
		last = now
		other := slices.ContainsFunc(seen, func(c content) bool { return c.release == now.release })
		if other && !slices.Contains(out, now.release) {
			out = append(out, now.release)
		}
		seen = append(seen, now)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Less(out[j]) }) // compiled once, unlike slices.SortFunc
	return out
}

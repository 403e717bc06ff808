package clusters

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// nftablesRules returns rules of nftables that leave the ports of etcd open for the members alone
// (docs/clusters.md#ports). Users load them as root, and each member writes its own record: a text that is
// no address never gets into them. The first line of the table creates it, so that the second one can delete it:
// nft adds the rules of a file to a chain that exists.
func nftablesRules(members []MemberReport) (string, error) {
	var ports []uint64
	families := map[string][]netip.Addr{}
	for _, m := range members {
		address, err := netip.ParseAddr(m.Address)
		if err != nil || address.Zone() != "" {
			return "", fmt.Errorf("member %s of node %q: %q is not an IP address", m.ID, m.Node, m.Address)
		}
		family := "ip6"
		if address = address.Unmap(); address.Is4() {
			family = "ip"
		}
		families[family] = append(families[family], address)
		for _, text := range []string{m.ClientURL, m.PeerURL} {
			u, err := url.Parse(text)
			if err != nil {
				return "", fmt.Errorf("member %s of node %q: %w", m.ID, m.Node, err)
			}
			if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil { // a learner that never ran has none
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	dport := fmt.Sprintf("tcp dport { %s }", nftSet(slices.Compact(ports)))
	out := []string{
		"# Closes the ports of etcd to all but the members. Add the nodes without a member, and the nodes that are to join.",
		"# Loading this file again replaces the table.",
		"table inet lockstep", "delete table inet lockstep",
		"table inet lockstep {", "  chain input {", "    type filter hook input priority filter; policy accept;", `    iifname "lo" accept`,
	}
	for _, family := range []string{"ip", "ip6"} {
		if all := families[family]; len(all) > 0 {
			slices.SortFunc(all, netip.Addr.Compare)
			out = append(out, fmt.Sprintf("    %s %s saddr { %s } accept", dport, family, nftSet(slices.Compact(all))))
		}
	}
	return strings.Join(append(out, "    "+dport+" drop", "  }", "}", ""), "\n"), nil
}

// nftSet lists values as nftables wants them.
func nftSet[T any](values []T) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

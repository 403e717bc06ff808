package clusters

import "testing"

func TestNftablesRules(t *testing.T) {
	a := MemberReport{ID: "a1", Node: "a", Address: "10.0.0.2", ClientURL: "https://10.0.0.2:8088", PeerURL: "https://10.0.0.2:8089"}
	b := MemberReport{ID: "b1", Node: "b", Address: "10.0.0.1", ClientURL: "https://10.0.0.1:9088", PeerURL: "https://10.0.0.1:8089"}
	c := MemberReport{ID: "c1", Node: "c", Address: "fd00::3", PeerURL: "https://[fd00::3]:8089"} // a learner that never ran
	const want = `# Closes the ports of etcd to all but the members. Add the nodes without a member, and the nodes that are to join.
# Loading this file again replaces the table.
table inet lockstep
delete table inet lockstep
table inet lockstep {
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "lo" accept
    tcp dport { 8088, 8089, 9088 } ip saddr { 10.0.0.1, 10.0.0.2 } accept
    tcp dport { 8088, 8089, 9088 } ip6 saddr { fd00::3 } accept
    tcp dport { 8088, 8089, 9088 } drop
  }
}
`
	if got, err := nftablesRules([]MemberReport{a, b, c}); err != nil || got != want {
		t.Errorf("got %v, %s", err, got)
	}
	// A member writes its own record: nothing in it becomes a rule of others.
	for _, address := range []string{"", "evil", "10.0.0.1 } accept; #", "::1%x } accept"} {
		a.Address = address
		if got, err := nftablesRules([]MemberReport{a}); err == nil || got != "" {
			t.Errorf("%q: got %s", address, got)
		}
	}
}

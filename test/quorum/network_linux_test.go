package quorum

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/netns"
)

// ip runs the program ip with each line.
func ip(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
}

// A machine starts the sidecar before its network, at its first start and at a later one: the
// sidecar says why it waits, and goes on when the network is up.
func TestCreate_beforeTheNetwork(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	ip(t, "link set lo up", "link add eth0 type bridge")
	n := New(t, "").Node("a")
	const ownAddress, none = "10.89.0.1", "--node-address=" // none overrides the address of Start
	awaits := func(state, want string) {
		t.Helper()
		n.AwaitCluster("to wait for its address", func(c Cluster) error {
			if c.State != state || !strings.Contains(c.Error, want) {
				return fmt.Errorf("got %+v", c)
			}
			return nil
		})
	}
	n.Start(none)
	awaits("CreatingCluster", "this machine has no default route")
	ip(t, "addr add "+ownAddress+"/24 dev eth0", "link set eth0 up", "route add default via 10.89.0.254")
	n.AwaitRunning()
	if got := n.Marker().Address; got != ownAddress {
		t.Fatalf("the member has the address %s, want %s", got, ownAddress)
	}
	wantOneMember(t, n)
	for _, flag := range []string{none, none + ownAddress} {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		ip(t, "addr del "+ownAddress+"/24 dev eth0")
		n.Start(flag)
		awaits("RestartingMember", ownAddress+" is not an address of this machine")
		ip(t, "addr add "+ownAddress+"/24 dev eth0")
		n.AwaitRunning()
	}
}

package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// TestDualStack has three nodes, of which two have an address of each family. One
// kube-apiserver is enough for that: the Service leads to it at each address.
func TestDualStack(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	r := newRig(t)
	second := []string{"fd90::1", "fd90::2", "fd90::3"}
	for _, address := range second {
		r.run("ip", "-6", "addr", "add", address+"/128", "dev", "lo")
	}
	r.startAPI(r.nodes[0], "--bind-address=::", "--service-cluster-ip-range=10.0.0.0/24,fd10::/112")
	start := func(n *node, ips ...string) {
		r.startSidecar(n, "--kubernetes-service", "--apiserver-address="+strings.Join(ips, ","))
	}
	for i, n := range r.nodes {
		if n.api = r.nodes[0].api; i == 0 {
			start(n, n.address)
		} else {
			start(n, n.address, second[i])
		}
	}
	r.await("three nodes to be published", addresses...)
	r.awaitSecond("two of them in the other family", second[1:]...)
	for _, address := range slices.Concat(second[1:], addresses) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", net.JoinHostPort(address, port))
		r.must(err)
		r.must(conn.Close())
	}

	r.sidecarCommand("cordon", "cp-3")
	r.await("one to leave", addresses[0], addresses[1])
	r.awaitSecond("its second address to leave", second[1])

	last := r.nodes[1]
	r.must(last.sidecar.Stop())
	r.must(r.has(t.Context(), addresses[0])) // both are out before it has stopped
	r.must(r.hasSecond(t.Context()))
	log, err := os.ReadFile(last.sidecar.LogFile())
	r.must(err)
	if text := string(log); !strings.Contains(text, "address is not in the service kubernetes") || strings.Contains(text, "address not seen to leave") {
		t.Errorf("the last node with two addresses did not see both leave:\n%s", text)
	}
	r.shows(r.nodes[0], `"reason":"Published"`)

	r.sidecarCommand("uncordon", "cp-3")
	start(last, last.address, second[1])
	r.await("three nodes to be published again", addresses...)
	r.awaitSecond("two of them in the other family again", second[1:]...)
}

// hasSecond checks what the slice of the second family has.
func (r *rig) hasSecond(ctx context.Context, want ...string) error {
	slice, err := r.api.Resource(sliceKind).Namespace("default").Get(ctx, "kubernetes-ipv6", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := inSlice(slice); !slices.Equal(got, want) || slice.Object["addressType"] != "IPv6" {
		return fmt.Errorf("the slice of the second family has %v of %v, want %v", got, slice.Object["addressType"], want)
	}
	return nil
}

func (r *rig) awaitSecond(what string, want ...string) {
	r.Helper()
	cluster.Await(r.T, what, func(ctx context.Context) error { return r.hasSecond(ctx, want...) })
}

package reconcile_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A kind that an aggregated API served, whose server is down, does not count as
// deleted: its objects may be there.
func TestPruneWaitsForAggregatedKinds(t *testing.T) {
	r := newRig(t)
	apiServices := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	name := "v1." + r.ns + ".away.test"
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	r.create(apiServices, "", fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":%q},"spec":{"group":"NS.away.test","version":"v1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"name":"nobody","namespace":"NS"}}}`, name))
	served := false
	t.Cleanup(func() {
		if !served {
			r.delete(apiServices, "", name)
		}
	})
	kinds := r.get(configMaps, r.ns, "set").GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]
	r.patch(configMaps, r.ns, "set", fmt.Sprintf(`{"metadata":{"annotations":{"applyset.kubernetes.io/contains-group-kinds":"%s,Thing.%s.away.test"}}}`, kinds, r.ns))

	r.use("1.0.1", configMap("a", "x: one"))
	await(t, "the group to be announced", func() error {
		if _, err := r.pass(); err != nil {
			return err
		}
		if held := r.report().PruneHeld; !strings.Contains(held, "Thing") {
			// Until the group is announced it is unknown, and nothing is held.
			r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
			r.mustComplete()
			r.patch(configMaps, r.ns, "set", fmt.Sprintf(`{"metadata":{"annotations":{"applyset.kubernetes.io/contains-group-kinds":"%s,Thing.%s.away.test"}}}`, kinds, r.ns))
			r.use("1.0.1", configMap("a", "x: one"))
			return fmt.Errorf("got held %q", held)
		}
		return nil
	})
	r.get(configMaps, r.ns, "b")

	r.delete(apiServices, "", name)
	served = true
	await(t, "the removal, once the group is really gone", func() error {
		if _, err := r.pass(); err != nil {
			return err
		}
		_, err := r.api.Resource(configMaps).Namespace(r.ns).Get(t.Context(), "b", getOptions)
		return wantNotFound(err)
	})
}

// When removals are due is decided by protocol.Next, which knows the policy and
// the fleet. A pass that may not remove is complete, and says what it owes,
// whatever the policy is.
func TestPrunePolicies(t *testing.T) {
	r := newRig(t)
	r.use("1.0.0", configMap("a", "x: one"), configMap("b", "x: one"))
	r.mustComplete()
	for _, policy := range []string{"WhenUpgraded", "Immediately"} {
		t.Run(policy, func(t *testing.T) {
			r.useHeader("release: 1.0.1\nprunePolicy: "+policy, configMap("a", "x: one"))
			if got := r.cfg.Bundle.Get().PruneImmediately; got != (policy == "Immediately") {
				t.Errorf("got %t", got)
			}
			out, err := r.work(protocol.Work{Content: r.content, Removals: false, LeaderEpoch: 7})
			if err != nil || !out.Complete || out.Owed != 1 || r.report().Objects.Owed != 1 {
				t.Errorf("got %+v, %v, want it complete except one removal", out, err)
			}
			r.get(configMaps, r.ns, "b")
		})
	}
	t.Run("once removals may be made", func(t *testing.T) {
		r.mustComplete()
		r.wantGone(configMaps, r.ns, "b")
	})
}

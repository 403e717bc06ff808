package reconcile

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/internal/exec"
	"github.com/lockstep-dev/lockstep/reconcile/internal/plan"
)

// raisesA reports whether the mark contains a content with a lower A than this pass. Then a
// write that lands late could be of objects that a node is not compatible with.
func (p *pass) raisesA() bool {
	return slices.ContainsFunc(p.mark().Entries, func(c protocol.Content) bool {
		return c.Constraints.MinAPIServer.Less(p.work.Content.Constraints.MinAPIServer)
	})
}

// findAggregated asks for each wanted kind whether another server handles it, if the
// answer can matter: nothing bounds how late a write of such a kind lands, and the
// admission policy does not see it (docs/protocol-objects.md#aggregated-apis).
func (p *pass) findAggregated(ctx context.Context) error {
	if p.aggregated != nil || p.work.Content.Constraints.MinAPIServer == (protocol.Release{}) || p.parent.Known && !p.raisesA() {
		return nil
	}
	p.aggregated = map[schema.GroupVersion]string{}
	for _, gvk := range plan.KindsOf(p.wanted) {
		gv := gvk.GroupVersion()
		if _, asked := p.aggregated[gv]; asked || kube.BuiltIn(gv.Group) {
			continue
		}
		var by string
		err := p.Read(ctx, func(ctx context.Context) (err error) {
			by, err = p.Client.AggregatedBy(ctx, gv)
			return err
		})
		if exec.EndsPass(err) {
			return err
		}
		p.aggregated[gv] = whyRefused(by, err)
	}
	return nil
}

// whyRefused says why a pass that raises A writes no object of an API; empty: it
// does. by is the Service of an aggregated API; empty: it is not aggregated.
func whyRefused(by string, err error) string {
	const rule = "a bundle that raises minApiserverRelease must not change objects of an aggregated API; change them in a release that does not raise it"
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("whether its API is aggregated is unknown: %v; give the kubeconfig's user the right to get apiservices.apiregistration.k8s.io (%s)", err, rule)
	case err != nil:
		return fmt.Sprintf("whether its API is aggregated is unknown: %v (%s)", err, rule)
	case by != "":
		return fmt.Sprintf("its API is aggregated: Service %s handles it. %s", by, rule)
	}
	return ""
}

// refused are the kinds that this pass does not write, and why.
func (p *pass) refused() map[schema.GroupVersion]string {
	if !p.raisesA() {
		return nil
	}
	return p.aggregated
}

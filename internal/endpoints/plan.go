package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/publish"
	"github.com/lockstep-dev/lockstep/report"
)

// target is an object, and the step for it.
type target struct {
	kind   *resource
	name   string
	family publish.Family
	second bool // family is not the Service's
	former bool // another slice lists the addresses of this family now
	now    object
	step   publish.Step
}

type plan []target

// plan decides about each object. The slices come first: kube-proxy reads them.
func (p *Publisher) plan(f protocol.Fleet, store string, seen observed) plan {
	families := publish.Families(f)
	if len(families) == 0 {
		families = []publish.Family{cmp.Or(seen.slices[serviceName].family, publish.IPv4)}
	}
	main := cmp.Or(seen.slices[serviceName].family, families[0])
	var out plan
	for _, family := range append(families, seen.left(main, families)...) {
		name := nameOf(family, main)
		now := seen.slices[name]
		now.Known = seen.slicesKnown
		out = append(out, target{kind: sliceResource, name: name, family: family, second: family != main, now: now})
	}
	out = append(out, seen.former(out)...)
	now := seen.endpoints
	now.Known = seen.endpointsKnown
	out = append(out, target{kind: endpointsResource, name: serviceName, family: families[0], now: now})
	for i := range out {
		belongs := out[i].family
		if out[i].former {
			belongs = publish.FamilyUnset // of which no address is
		}
		out[i].step = publish.Next(publish.Facts{
			Fleet: f, Store: store, Parent: p.parent.id, Family: belongs, Second: out[i].second,
			Current: out[i].now.Object, Lost: out[i].now.lost.facts(time.Now()),
		})
	}
	return out
}

// nameOf returns the name of the slice of a family. main is the family of the Service.
func nameOf(family, main publish.Family) string {
	if family == main {
		return serviceName
	}
	return secondName(family)
}

// secondName returns the name of the slice of a family that is not the Service's.
func secondName(family publish.Family) string {
	return serviceName + map[publish.Family]string{publish.IPv4: "-ipv4", publish.IPv6: "-ipv6"}[family]
}

// writes reports whether Lockstep writes the object of this name.
func writes(name string) bool {
	return name == serviceName || name == secondName(publish.IPv4) || name == secondName(publish.IPv6)
}

// left returns the families that no node in service uses, but whose slices still contain
// addresses.
func (o observed) left(main publish.Family, inService []publish.Family) []publish.Family {
	var out []publish.Family
	for _, family := range []publish.Family{publish.IPv4, publish.IPv6} {
		if !slices.Contains(inService, family) && len(o.slices[nameOf(family, main)].Addresses) > 0 {
			out = append(out, family)
		}
	}
	return out
}

// former returns the slices that still contain addresses, and that no plan changes: the slice kubernetes was deleted, and
// created again with the other family. They are emptied once that slice contains addresses.
func (o observed) former(planned plan) (out plan) {
	if len(o.slices[serviceName].Addresses) == 0 {
		return nil
	}
	for _, family := range []publish.Family{publish.IPv4, publish.IPv6} {
		name := secondName(family)
		now, exists := o.slices[name]
		if exists && len(now.Addresses) > 0 && !slices.ContainsFunc(planned, func(t target) bool { return t.name == name }) {
			now.Known = o.slicesKnown
			out = append(out, target{kind: sliceResource, name: name, family: now.family, second: true, former: true, now: now})
		}
	}
	return out
}

func (p plan) parts() []publish.Part {
	var out []publish.Part
	for _, t := range p {
		out = append(out, publish.Part{Known: t.now.Known, Addresses: t.now.Addresses, Kind: t.step.Kind})
	}
	return out
}

func (p plan) writes() bool {
	return slices.ContainsFunc(p, func(t target) bool { return t.step.Kind == publish.Write })
}

// retry returns when the first wait ends by itself; 0: none does.
func (p plan) retry() (out time.Duration) {
	for _, t := range p {
		if r := t.step.Retry; r > 0 && (out == 0 || r < out) {
			out = r
		}
	}
	return out
}

// worst returns the step that people must see.
func (p plan) worst() publish.Step {
	rank := func(t target) int {
		switch {
		case t.step.Kind == publish.Wait:
			return 3
		case t.step.Reason == publish.NoneReady:
			return 2
		case t.step.Kind == publish.Write:
			return 1
		}
		return 0
	}
	return slices.MaxFunc(p, func(a, b target) int { return cmp.Compare(rank(a), rank(b)) }).step
}

// show publishes the state.
func (p *Publisher) show(f protocol.Fleet, seen observed, now plan) {
	worst := now.worst()
	out := State{
		Endpoints: report.Endpoints{
			Enabled: true, Reason: string(worst.Reason), Message: worst.Message, Problem: cmp.Or(p.problem, seen.problem()),
			Revision: seen.slices[serviceName].Revision, Addresses: seen.addresses(), Nodes: controllers(f), Since: report.At(time.Now()),
		},
		RemovalPending: publish.RemovalPending(f, p.cfg.Node, p.cfg.Own, now.parts()),
	}
	was := p.state.Get()
	if out.equal(was) {
		return
	}
	if out.Reason == was.Reason {
		out.Since = was.Since
	} else {
		p.cfg.Log.Info("service "+serviceName, "reason", out.Reason, "message", out.Message)
	}
	p.state.Set(out)
	p.metrics.show(out)
}

// controllers describes all controllers.
func controllers(f protocol.Fleet) []report.EndpointsNode {
	var out []report.EndpointsNode
	for _, n := range publish.Nodes(f) {
		addresses := slices.DeleteFunc([]string{n.Endpoint.Address, n.Endpoint.Secondary}, func(a string) bool { return a == "" })
		out = append(out, report.EndpointsNode{
			ID: string(n.ID), Addresses: addresses, Port: n.Endpoint.Port, Serves: n.Serves, Reason: string(n.Reason), Message: n.Message,
		})
	}
	return out
}

// attempt takes a snapshot, decides again, and writes. The objects were read before
// (docs/protocol-endpoints.md#kubernetes-service).
func (p *Publisher) attempt(ctx context.Context, seen observed) error {
	limited, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	snapshot, store, err := fleet.ReadFleet(limited, p.cfg.Etcd, &p.decoder)
	if err != nil {
		return err
	}
	var errs []error
	p.readParent(ctx, store, seen)
	for _, t := range p.plan(snapshot, store, seen) {
		if t.step.Kind == publish.Write {
			errs = append(errs, p.write(ctx, t, store))
		}
	}
	return errors.Join(errs...)
}

// write writes an object that did not change since it was read. If it did, it is read
// again, and the next round decides.
func (p *Publisher) write(ctx context.Context, t target, store string) error {
	written, err := t.kind.write(ctx, p.cfg.API, t, store)
	switch code := kube.StatusCode(err); {
	case err == nil:
		p.metrics.writes.WithLabelValues(resultWritten).Inc()
		p.cfg.Log.Info("service written", "object", t.kind.kind+"/"+t.name, "addresses", t.step.Addresses, "revision", t.step.Revision)
		p.observe(t.kind, written)
		return nil
	case code == http.StatusConflict || code == http.StatusNotFound:
		p.metrics.writes.WithLabelValues(resultChanged).Inc()
		now, err := t.kind.read(ctx, p.cfg.API, t.name)
		if err != nil {
			return err
		}
		p.observe(t.kind, now)
		return nil
	}
	p.metrics.writes.WithLabelValues(resultFailed).Inc()
	return fmt.Errorf("write %s %q in namespace %s: %w", t.kind.kind, t.name, serviceNamespace, err)
}

package endpoints

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// observed contains the objects as they were last read. Its map must not be changed.
type observed struct {
	slices                      map[string]object // by name
	endpoints                   object
	slicesKnown, endpointsKnown bool
	slicesProblem               string
	endpointsProblem            string
}

func (o observed) problem() string { return cmp.Or(o.slicesProblem, o.endpointsProblem) }

// addresses are those in the slices that Lockstep writes.
func (o observed) addresses() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o.slices)) {
		out = append(out, o.slices[name].Addresses...)
	}
	return out
}

// lost counts how often other clients overwrote an object of Lockstep.
type lost struct {
	times   int
	at      time.Time // the last time
	manager string
}

func (l lost) facts(now time.Time) publish.Overwrites {
	return publish.Overwrites{Times: l.times, Ago: now.Sub(l.at), Manager: l.manager}
}

// after returns the count after a change of an object.
func (l lost) after(was, now object) lost {
	at, kept := time.Now(), time.Duration(0)
	if !was.since.IsZero() {
		kept = at.Sub(was.since)
	}
	count, counts := l.facts(at).After(was.Object, now.Object, kept)
	if !counts {
		return l
	}
	return lost{times: count.Times, at: at, manager: count.Manager}
}

// observe keeps an object from an answer or a watch, unless a newer form of it was observed
// before. Slices with other names belong to others, and there may be thousands.
func (p *Publisher) observe(kind *resource, now object) {
	if writes(now.name) && !older(now.version, p.seen.Get().object(kind, now.name).version) {
		p.accept(kind, now)
	}
}

// accept keeps an object from a list. It may be older than the one observed before: the API may
// have been restored from a backup.
func (p *Publisher) accept(kind *resource, now object) {
	event.Update(p.seen, func(o observed) observed {
		was := o.object(kind, now.name)
		now.since, now.lost = was.since, was.lost
		if !now.Own || !was.Own {
			now.since = time.Now()
		}
		if !older(now.version, was.version) {
			if now.lost = was.lost.after(was, now); now.lost != was.lost {
				p.metrics.overwritten.Inc()
			}
		}
		return o.with(kind, now)
	})
}

func (o observed) object(kind *resource, name string) object {
	if kind == endpointsResource {
		return o.endpoints
	}
	return o.slices[name]
}

// with returns o with an object. One without a resourceVersion does not exist.
func (o observed) with(kind *resource, now object) observed {
	if kind == endpointsResource {
		o.endpoints = now
		return o
	}
	all := map[string]object{}
	maps.Copy(all, o.slices)
	if all[now.name] = now; now.version == "" {
		delete(all, now.name)
	}
	o.slices = all
	return o
}

const (
	minRelist = 100 * time.Millisecond
	maxRelist = 5 * time.Second
)

// follow observes the objects of a kind until ctx ends. It lists them, and watches them
// from there on.
func (p *Publisher) follow(ctx context.Context, kind *resource) {
	pauses := backoff.Backoff{First: minRelist, Max: maxRelist, Jitter: 0.2}
	for {
		began := time.Now()
		err := p.listAndWatch(ctx, kind)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, io.EOF) {
			err = nil // the server ends each watch after some minutes
		}
		if time.Since(began) > maxRelist {
			pauses.Reset()
		}
		if err != nil {
			p.cfg.Log.Debug("watch of the service ended, listing again", "kind", kind.kind, "err", err)
			p.report(kind, err.Error())
		}
		if !pauses.Sleep(ctx) {
			return
		}
	}
}

// report keeps why a kind cannot be read; empty: it can.
func (p *Publisher) report(kind *resource, problem string) {
	now := p.seen.Get()
	if kind == sliceResource && now.slicesProblem == problem || kind == endpointsResource && now.endpointsProblem == problem {
		return
	}
	event.Update(p.seen, func(o observed) observed {
		if kind == sliceResource {
			o.slicesProblem = problem
		} else {
			o.endpointsProblem = problem
		}
		return o
	})
}

// listAndWatch returns why the watch ended.
func (p *Publisher) listAndWatch(ctx context.Context, kind *resource) error {
	list, err := p.cfg.API.ListSelected(ctx, kind.resource, serviceNamespace, kind.query)
	if err != nil {
		return err
	}
	p.replace(kind, list)
	p.report(kind, "")
	query := maps.Clone(kind.query)
	query.Set("resourceVersion", list.Version)
	stream, err := p.cfg.API.Watch(ctx, kind.resource, serviceNamespace, query)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // nothing was sent
	for {
		e, err := stream.Next()
		if err != nil {
			return err
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			p.observe(kind, kind.decode(e.Object))
		case watch.Deleted:
			p.observe(kind, object{name: e.Object.GetName()})
		default: // a bookmark
		}
	}
}

// replace keeps the objects of a list, and no others.
func (p *Publisher) replace(kind *resource, list kube.List) {
	names := map[string]bool{}
	for _, o := range list.Objects {
		if name := o.GetName(); writes(name) {
			names[name] = true
			p.accept(kind, kind.decode(o))
		}
	}
	event.Update(p.seen, func(o observed) observed {
		if kind == endpointsResource {
			if o.endpointsKnown = true; !names[serviceName] {
				o.endpoints = object{name: serviceName}
			}
			return o
		}
		o.slicesKnown = true
		for name := range o.slices {
			if !names[name] {
				o = o.with(kind, object{name: name})
			}
		}
		return o
	})
}

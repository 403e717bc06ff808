package endpoints

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// This file reads whose the objects of the API are. Any client that may write the Service
// can set the annotation there; the parent decides.

// parentStore is the store ID that was read from the parent.
type parentStore struct {
	id string // empty: unknown, or none
	at time.Time
}

var configMaps = resourceOf("", "v1", "ConfigMap", "configmaps")

// ofAnotherStore reports whether an object carries the ID of another store than store.
func (o observed) ofAnotherStore(store string) bool {
	for _, each := range o.slices {
		if each.OfAnotherStore(store) {
			return true
		}
	}
	return o.endpoints.OfAnotherStore(store)
}

// readParent reads the ID on the parent, if an object carries another store's. The answer is
// used for publish.ParentRetry. If the read fails, the ID is unknown.
func (p *Publisher) readParent(ctx context.Context, store string, seen observed) {
	if store == "" || !seen.ofAnotherStore(store) {
		p.parent = parentStore{}
		return
	}
	if !p.parent.at.IsZero() && time.Since(p.parent.at) < publish.ParentRetry {
		return
	}
	limited, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	parent, err := p.cfg.API.Get(limited, configMaps, p.cfg.Parent.Namespace, p.cfg.Parent.Name)
	p.parent = parentStore{at: time.Now()}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.cfg.Log.Warn("the service has the ID of another store, and the parent of the objects cannot be read", "err", err)
		}
		return
	}
	p.parent.id = parent.GetAnnotations()[annotationStore]
	p.cfg.Log.Info("the service has the ID of another store, and the parent of the objects decides", "store", store, "parent", p.parent.id)
}

package etcdhealth

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
)

// serversInterval is the pause between two requests for the versions of the etcd servers, which
// change only with their upgrades.
const serversInterval = 10 * time.Minute

// RunFaults publishes servers with known faults, until ctx ends
// (docs/upstream.md#etcd-known-faults).
func (w *Watch) RunFaults(ctx context.Context) error {
	for {
		contact, contactChanged := w.cfg.Client.Contact().Load()
		if contact.Reached() {
			break
		}
		if !event.Wait(ctx, contactChanged) {
			return ctx.Err()
		}
	}
	tick := time.NewTicker(serversInterval)
	defer tick.Stop()
	for {
		var faults []string
		for _, s := range w.cfg.Client.Servers(ctx) {
			if fault := etcd.KnownFault(s.Version); fault != "" {
				faults = append(faults, "etcd "+s.Endpoint+" is "+s.Version+": "+fault)
			}
		}
		if !slices.Equal(faults, w.faults.Get()) {
			w.faults.Set(faults)
			for _, f := range faults {
				w.cfg.Log.Warn("etcd server with a known fault", "message", f)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

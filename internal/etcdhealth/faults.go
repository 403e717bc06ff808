package etcdhealth

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// serversInterval is the pause between two requests for the versions of the etcd servers, which
// change only with their upgrades.
const serversInterval = 10 * time.Minute

// RunFaults publishes servers with known faults, until ctx ends
// (docs/upstream.md#etcd-known-faults).
func (w *Watch) RunFaults(ctx context.Context) error {
	if err := event.Until(ctx, w.cfg.Client.Contact(), func(c etcd.Contact) bool { return c.Reached() }); err != nil {
		return err
	}
	check := func() {
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
	}
	check()
	return backoff.Every(ctx, serversInterval, check)
}

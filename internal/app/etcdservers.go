package app

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
)

// etcdServersInterval is the pause between two requests for the versions of the etcd servers, which
// change only with their upgrades.
const etcdServersInterval = 10 * time.Minute

// watchEtcdServers warns of servers with known faults until ctx ends
// (docs/upstream.md#etcd-known-faults).
func (a *App) watchEtcdServers(ctx context.Context) error {
	for {
		contact, contactChanged := a.etcd.Contact().Load()
		if contact.Reached() {
			break
		}
		if !event.Wait(ctx, contactChanged) {
			return ctx.Err()
		}
	}
	tick := time.NewTicker(etcdServersInterval)
	defer tick.Stop()
	for {
		var faults []string
		for _, s := range a.etcd.Servers(ctx) {
			if fault := etcd.KnownFault(s.Version); fault != "" {
				faults = append(faults, "etcd "+s.Endpoint+" is "+s.Version+": "+fault)
			}
		}
		if !slices.Equal(faults, a.etcdFaults.Get()) {
			a.etcdFaults.Set(faults)
			for _, f := range faults {
				a.log.Warn("etcd server with a known fault", "message", f)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

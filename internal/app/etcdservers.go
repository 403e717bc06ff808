package app

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
)

// etcdServersInterval is the pause between two looks at the versions of the
// etcd servers: they change when somebody upgrades them.
const etcdServersInterval = 10 * time.Minute

// watchEtcdServers warns of servers with known faults (DESIGN 4.6) until ctx
// ends.
func (a *App) watchEtcdServers(ctx context.Context) error {
	for {
		contact, changed := a.etcd.Contact().Load()
		if contact.Reached() {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
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

// Package variables keeps the values of the variables in services: this node's address, and the servers
// and the files of etcd. Some are known only when the data directory belongs
// to this sidecar alone, so it also holds that directory. RunServers blocks until its context ends.
package variables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config configures a Keeper. All fields are required, unless their comments say otherwise.
type Config struct {
	Node     protocol.NodeID
	Etcd     etcd.Config
	Cluster  *cluster.Manager
	Embedded bool   // the sidecars run etcd: the manager holds the data directory
	Services string // the services directory; empty: this node runs no services
	DataDir  string // with Services; empty with Embedded
	// NodeAddress is this node's IP address; empty: the address of the default route.
	NodeAddress string
	Log         *slog.Logger
}

// Keeper keeps the variables, and holds the data directory.
type Keeper struct {
	cfg       Config
	variables *event.Value[service.Variables]
	missing   *event.Value[Missing]
	lock      *datadir.Dir // locks the data directory, if no member locks it; only Hold and Close use it
}

// New returns a Keeper with the variables that are known at the start. If the sidecars run etcd, the
// servers are known only when the data directory contains a member.
func New(cfg Config) *Keeper {
	v := service.Variables{
		EtcdCAFile: cfg.Etcd.CAFile, EtcdCertFile: cfg.Etcd.CertFile, EtcdKeyFile: cfg.Etcd.KeyFile,
		NodeID: string(cfg.Node),
	}
	if !cfg.Embedded {
		v.EtcdServers = strings.Join(cfg.Etcd.Endpoints, ",")
	}
	return &Keeper{cfg: cfg, variables: event.New(v), missing: event.New(Missing{})}
}

// Variables follows the variables.
func (k *Keeper) Variables() *event.Value[service.Variables] { return k.variables }

// Missing follows the servers of etcd in the variables that are no longer members.
func (k *Keeper) Missing() *event.Value[Missing] { return k.missing }

// Missing are used servers of etcd that are no longer members. The zero value: there are none.
type Missing struct {
	Servers int    // how many
	Message string // for people, with what to type
}

// lockTimeout is how long the data directory may be in use at the start, by a stopping sidecar.
const (
	lockTimeout = 15 * time.Second
	lockPause   = 100 * time.Millisecond
	// maxAddressPause is the longest time between two searches for this node's address.
	maxAddressPause = 2 * time.Second
)

// Hold returns when the data directory, if there is one, belongs to this sidecar alone.
func (k *Keeper) Hold(ctx context.Context) error {
	if k.cfg.Embedded {
		return k.awaitMember(ctx)
	}
	if k.cfg.Services == "" {
		return nil
	}
	for began := time.Now(); ; {
		dir, err := datadir.Lock(k.cfg.DataDir)
		if err == nil {
			k.lock = dir
			return k.awaitAddress(ctx)
		}
		if _, locked := errors.AsType[*datadir.LockedError](err); !locked || time.Since(began) > lockTimeout {
			return err
		}
		if !backoff.Sleep(ctx, lockPause) {
			return ctx.Err()
		}
	}
}

// awaitAddress returns when it finds the node address for services: the machine may start the
// sidecar before its network.
func (k *Keeper) awaitAddress(ctx context.Context) error {
	pauses, told := backoff.Backoff{First: lockPause, Max: maxAddressPause}, ""
	for {
		own, err := nodeaddress.Find(k.cfg.NodeAddress)
		if err == nil {
			v := k.variables.Get()
			v.NodeAddress = own
			k.variables.Set(v)
			return nil
		}
		if problem := err.Error(); problem != told {
			k.cfg.Log.Warn("services wait for the address of this node", "problem", problem)
			told = problem
		}
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// awaitMember returns when the cluster manager holds the data directory.
func (k *Keeper) awaitMember(ctx context.Context) error {
	err := event.Until(ctx, k.cfg.Cluster.Held(), event.Is)
	if err == nil {
		k.useServers(k.cfg.Cluster.Membership().Get())
	}
	return err
}

// RunServers keeps the etcd servers in the variables of services up to date while this node
// becomes a member or leaves.
func (k *Keeper) RunServers(ctx context.Context) error {
	for {
		now, membershipChanged := k.cfg.Cluster.Membership().Load()
		k.useServers(now)
		if !event.Wait(ctx, membershipChanged) {
			return ctx.Err()
		}
	}
}

func (k *Keeper) useServers(now cluster.Membership) {
	v := k.variables.Get()
	v.EtcdServers, v.NodeAddress, v.EtcdTrust = serversFor(v.EtcdServers, now), now.Address, now.Trust
	event.SetIfNew(k.variables, v)
	missing := newMissing(k.cfg.Node, v.EtcdServers, now)
	if missing.Message != "" && missing != k.missing.Get() {
		k.cfg.Log.Warn("services lack servers of etcd", "problem", missing.Message)
	}
	event.SetIfNew(k.missing, missing)
}

// serversFor returns the etcd servers for services: this node's own member while it exists, and
// otherwise all other members. A change restarts the services that use them, so the old servers
// stay as long as one of them is still a member.
func serversFor(was string, now cluster.Membership) string {
	if now.Local {
		return now.Servers[0]
	}
	for server := range strings.SplitSeq(was, ",") {
		if slices.Contains(now.Servers, server) {
			return was
		}
	}
	return strings.Join(now.Servers, ",")
}

// newMissing describes the used servers that are no longer members.
func newMissing(own protocol.NodeID, used string, now cluster.Membership) Missing {
	missing := slices.DeleteFunc(strings.Split(used, ","), func(server string) bool { return slices.Contains(now.Servers, server) })
	if now.Local || used == "" || len(missing) == 0 { // services use only this node's member, or none is known yet
		return Missing{}
	}
	return Missing{len(missing), fmt.Sprintf(
		"its services use the etcd servers %s, of which %s left the cluster: they cannot reach etcd while the others are off; "+
			"to give them all servers (%s), type sidecar cordon %s, restart its sidecar, and type sidecar uncordon %s",
		used, strings.Join(missing, " and "), strings.Join(now.Servers, ","), own, own)}
}

// Close unlocks the data directory if Hold locked it.
func (k *Keeper) Close() error {
	if k.lock == nil {
		return nil
	}
	return k.lock.Close()
}

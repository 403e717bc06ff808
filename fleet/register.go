package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// RegistrarConfig is what a Registrar needs.
type RegistrarConfig struct {
	Client  *etcd.Client
	Local   *event.Value[protocol.Local]
	Address string // of the own listener, for others to see
	BootID  string // changes when the machine boots
	// Presence is the lease of this instance's presence: without it the record
	// is another sidecar's to write (DESIGN 4.9).
	Presence *event.Value[clientv3.LeaseID]
	Fleet    *event.Value[protocol.Fleet]
	Log      *slog.Logger
}

// Registrar keeps this node's record true (DESIGN 4.2), and the promise that it
// makes (4.9). It alone writes it, but for the roles, which belong to people.
type Registrar struct {
	cfg          RegistrarConfig
	keys         keyspace.Keys
	registration *event.Value[protocol.Registration]
	last         protocol.Record // the newest state of the record that was judged or written
	lastAt       etcd.At         // when it was seen
	clock        bootClock

	mu        sync.Mutex    // mu guards confirmed, and that registrations are set by what it says
	confirmed time.Duration // by clock: when the last request was sent that confirmed the presence
}

const (
	minRegisterPause = 50 * time.Millisecond
	maxRegisterPause = 3 * time.Second
)

// NewRegistrar returns a registrar that has not registered yet.
func NewRegistrar(cfg RegistrarConfig) *Registrar {
	return &Registrar{
		cfg:          cfg,
		keys:         keyspace.Under(cfg.Client.Prefix()),
		registration: event.New(protocol.Registration{}),
		clock:        newBootClock(),
		last:         protocol.Record{Node: protocol.Node{Roles: protocol.Roles{Controller: true}}},
	}
}

// Registration follows what is known of the own record.
func (r *Registrar) Registration() *event.Value[protocol.Registration] { return r.registration }

// Run registers, and again whenever the record no longer says what it should or
// the node was fenced, until ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.keepRegistered(ctx) })
	group.Go(func() error { return r.keepFenced(ctx) })
	return group.Wait()
}

func (r *Registrar) keepRegistered(ctx context.Context) error {
	for {
		_, rewound := r.cfg.Client.Rewound().Load()
		if err := r.register(ctx); err != nil {
			return err
		}
		if err := r.keep(ctx, rewound); err != nil {
			return err
		}
		r.withdraw()
	}
}

// register writes the record until that succeeds.
func (r *Registrar) register(ctx context.Context) error {
	wait, failed := minRegisterPause, false
	for {
		_, presenceChanged := r.cfg.Presence.Load()
		err := r.registerOnce(ctx)
		if err == nil {
			err = r.publish(protocol.Registration{
				Confirmed: true, Controller: r.last.Node.Roles.Controller, Revision: r.last.Revision,
			})
		}
		if err == nil {
			r.cfg.Log.Info("registered", "release", r.last.Node.Version.Release.String(),
				"revision", r.last.Revision, "controller", r.last.Node.Roles.Controller)
			return nil
		}
		if !errors.Is(err, errChanged) && !errors.Is(err, errNoPresence) && ctx.Err() == nil {
			r.cfg.Log.Log(ctx, severity(&failed), "not registered, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-presenceChanged:
		case <-time.After(wait):
			wait = min(2*wait, maxRegisterPause)
		}
	}
}

var (
	// errChanged says that the key changed between the read and the write, or
	// that the presence did.
	errChanged = errors.New("the key changed meanwhile")
	// errNoPresence says that this instance has no presence yet.
	errNoPresence = errors.New("this sidecar has no presence in etcd yet")
)

// registerOnce reads the record and replaces it, keeping the roles that are in
// it. The controller role is set only where the record is first created.
func (r *Registrar) registerOnce(ctx context.Context) error {
	local, client := r.cfg.Local.Get(), r.cfg.Client
	resp, err := client.Get(ctx, r.keys.Node(local.ID))
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		return r.write(ctx, protocol.Roles{Controller: true}, 0)
	}
	found := decodeRecord(local.ID, etcd.NewKV(resp.Kvs[0]))
	roles := found.Node.Roles
	if found.Node.ID != local.ID {
		roles = r.last.Node.Roles // what stands there says nothing of this node
	}
	return r.write(ctx, roles, found.Revision)
}

// write replaces the record that has the mod revision (0: there is none), and
// notes what was written.
func (r *Registrar) write(ctx context.Context, roles protocol.Roles, revision int64) error {
	local, lease := r.cfg.Local.Get(), r.cfg.Presence.Get()
	if lease == clientv3.NoLease {
		return errNoPresence
	}
	key, presence := r.keys.Node(local.ID), r.keys.Presence(local.ID)
	sent := r.clock.now()
	rewinds := r.cfg.Client.Rewound().Get() // before the request: an answer of an older store counts as older
	node := protocol.Node{
		ID:            local.ID,
		Roles:         roles,
		Version:       local.Version,
		MinReconciler: local.Constraints.MinReconciler,
		Address:       r.cfg.Address,
		Digest:        local.Digest,
		BootID:        r.cfg.BootID,
		FenceAfter:    local.FenceAfter,
	}
	txn, err := r.cfg.Client.Txn(ctx,
		[]clientv3.Cmp{
			clientv3.Compare(clientv3.ModRevision(key), "=", revision),
			clientv3.Compare(clientv3.LeaseValue(presence), "=", lease),
		},
		[]clientv3.Op{clientv3.OpPut(key, string(Encode(node))), clientv3.OpGet(key)}, nil)
	switch {
	case err != nil:
		return fmt.Errorf("write node record: %w", err)
	case !txn.Succeeded:
		return errChanged
	}
	r.last = decodeRecord(local.ID, etcd.NewKV(txn.Responses[1].GetResponseRange().Kvs[0]))
	r.lastAt = etcd.At{Rewinds: rewinds, Revision: r.last.Revision}
	r.confirm(sent)
	return nil
}

// keep returns nil when the node has to register again. Other changes of the
// record are corrected without touching the gate.
func (r *Registrar) keep(ctx context.Context, rewound <-chan struct{}) error {
	affirm, stop := r.affirming()
	defer stop()
	for {
		registration, registrationChanged := r.registration.Load()
		if registration.Fenced {
			return nil
		}
		_, presenceChanged := r.cfg.Presence.Load()
		fleet, fleetChanged := r.cfg.Fleet.Load()
		_, localChanged := r.cfg.Local.Load()
		again, retry := r.look(ctx, fleet)
		if again {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rewound:
			r.cfg.Log.Warn("etcd went back to an older revision, registering again")
			return nil
		case <-presenceChanged:
			r.affirm(ctx)
		case <-affirm:
			r.affirm(ctx)
		case <-registrationChanged:
		case <-fleetChanged:
		case <-localChanged:
		case <-retry:
		}
	}
}

// look compares the own record as observed with what it should be. It reports
// whether the node has to register again, and when to look again where a
// correction did not succeed.
func (r *Registrar) look(ctx context.Context, fleet protocol.Fleet) (again bool, retry <-chan time.Time) {
	at := etcd.At{Rewinds: fleet.Rewinds, Revision: fleet.Revision}
	if at.Before(r.lastAt) {
		return false, nil // the observation lags behind what was judged or written
	}
	local := r.cfg.Local.Get()
	rec, found := fleet.Record(local.ID)
	if protocol.MustRegister(protocol.RegistrationFacts{Found: found, Record: rec, Last: r.last, Local: local, BootID: r.cfg.BootID}) {
		r.cfg.Log.Warn("the own record no longer says what this node is, registering again", "found", found, "problem", rec.Problem)
		return true, nil
	}
	r.last, r.lastAt = rec, at
	if r.last.Node.Digest == local.Digest && r.last.Node.Address == r.cfg.Address {
		return false, nil
	}
	// Only over the very record that was judged: whatever came after it has to
	// be judged first.
	if err := r.write(ctx, r.last.Node.Roles, r.last.Revision); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("own record not corrected, trying again", "err", err)
		return false, time.After(maxRegisterPause)
	}
	return false, nil
}

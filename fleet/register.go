package fleet

import (
	"cmp"
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
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/trace"
)

// RegistrarConfig configures a Registrar. All fields except Address, Services and Trace are
// required.
type RegistrarConfig struct {
	Client  *etcd.Client
	Local   *event.Value[protocol.Local]
	Address string // of this sidecar's listener, for other nodes; empty: unknown
	BootID  string // changes when the machine boots
	// Consensus: this node runs an etcd member. A first record contains that role too.
	Consensus bool
	// First returns the roles of a record that this sidecar creates; it replaces the default.
	// While they are not known (false), it creates none. nil: the controller role, and
	// Consensus.
	First func() (roles protocol.Roles, known bool)
	// Presence is the lease of this instance's presence. Without it, the record
	// belongs to another sidecar (docs/protocol-nodes.md#duplicate-ids).
	Presence *event.Value[clientv3.LeaseID]
	Fleet    *event.Value[protocol.Fleet]
	Store    *event.Value[StoreKey]
	// Services is the state of this node's services: a registration waits for them. nil: it
	// runs none (docs/protocol-nodes.md#services).
	Services *event.Value[nodeservices.Facts]
	// APIServer is why this node's kube-apiserver does not fit the bundle: a registration
	// waits for one that does. Empty: it fits. nil: every one does
	// (docs/protocol-nodes.md#apiserver-version).
	APIServer *event.Value[string]
	Log       *slog.Logger
	Trace     trace.Hook // for the recorder and tests; nil: nothing is reported
}

// Registrar writes this node's record and keeps it current
// (docs/protocol-nodes.md#registration). It alone writes the record, except the roles,
// which belong to users. It reads Local, Presence, Fleet, Store and Services, and writes
// Registration. It also keeps the record's promise to close the gate
// before leaders ignore this node; that part is in expiry.go.
type Registrar struct {
	cfg          RegistrarConfig
	keys         keyspace.Keys
	registration *event.Value[protocol.Registration]
	last         protocol.Record              // the newest state of the record that was checked or written
	lastAt       etcd.At                      // when it was observed
	traced       noderecord.RegistrationFacts // of the comparison that was reported last; zero: none was
	store        StoreKey                     // the newest one with an ID; only keepRegistered uses it
	clock        bootClock
	cordonOver   *event.Value[CordonOver]

	mu        sync.Mutex    // mu guards confirmed, and that registrations are published by its value
	confirmed time.Duration // by clock: when the last request that confirmed the presence was sent
}

const (
	minRegisterPause = 50 * time.Millisecond
	maxRegisterPause = 3 * time.Second
)

// registerPauses are the pauses between attempts to write a record.
func registerPauses() backoff.Backoff {
	return backoff.Backoff{First: minRegisterPause, Max: maxRegisterPause, Jitter: backoff.Apart}
}

// NewRegistrar returns a registrar that has not registered yet.
func NewRegistrar(cfg RegistrarConfig) *Registrar {
	cfg.Services = cmp.Or(cfg.Services, event.New(nodeservices.Facts{Known: true, Complete: true, Ready: true}))
	cfg.APIServer = cmp.Or(cfg.APIServer, event.New(""))
	return &Registrar{
		cfg:          cfg,
		keys:         keyspace.Under(cfg.Client.Prefix()),
		registration: event.New(protocol.Registration{}),
		clock:        newBootClock(),
		cordonOver:   event.New(CordonOver{}),
	}
}

// firstRoles returns the roles of a record that this sidecar creates, if they are known.
func (c RegistrarConfig) firstRoles() (protocol.Roles, bool) {
	if c.First == nil {
		return protocol.Roles{Controller: true, Consensus: c.Consensus}, true
	}
	return c.First()
}

// Registration follows the state of this node's registration.
func (r *Registrar) Registration() *event.Value[protocol.Registration] { return r.registration }

// Run registers the node, and registers it again whenever the protocol requires
// that. It returns ctx's error when ctx ends.
func (r *Registrar) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.keepRegistered(ctx) })
	group.Go(func() error { return r.closeWhenOverdue(ctx) })
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
		r.unpublish()
	}
}

// register tries until the record is written and the registration is published.
func (r *Registrar) register(ctx context.Context) error {
	pauses := registerPauses()
	failures := 0
	for {
		woken := event.Changes(r.cfg.Presence, r.cfg.Services, r.cfg.APIServer)
		err := r.tryRegister(ctx)
		switch {
		case err == nil:
			r.cfg.Log.Info("registered", "release", r.last.Node.Version.Release.String(),
				"revision", r.last.Revision, "controller", r.last.Node.Roles.Controller)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, etcd.ErrChanged), errors.Is(err, errNoPresence), errors.Is(err, errServices), errors.Is(err, errRoles):
		default:
			failures++
			r.cfg.Log.Log(ctx, severity(failures), "not registered, trying again", "err", err)
		}
		if !event.WaitFor(ctx, pauses.Next(), woken...) {
			return ctx.Err()
		}
	}
}

// tryRegister makes one attempt.
func (r *Registrar) tryRegister(ctx context.Context) error {
	if err := r.replaceRecord(ctx); err != nil {
		return err
	}
	return r.publish(protocol.Registration{
		Matches: true, Controller: r.last.Node.Roles.Controller, Cordon: r.last.Node.Cordon,
		Revision: r.last.Revision, Rewinds: r.lastAt.Rewinds,
	})
}

// replaceRecord reads the record and replaces everything in it except the roles and the
// cordon.
// It sets the controller role only when it creates the record.
func (r *Registrar) replaceRecord(ctx context.Context) error {
	id := r.cfg.Local.Get().ID
	resp, err := r.cfg.Client.Get(ctx, r.keys.Node(id))
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		r.traceRead(false, protocol.Record{})
		roles, known := r.cfg.firstRoles()
		if !known {
			return errRoles
		}
		return r.writeBehindServices(ctx, roles, protocol.Cordon{}, etcd.KV{})
	}
	kv := etcd.NewKV(resp.Kvs[0])
	current := decodeRecord(id, kv)
	r.traceRead(true, current)
	roles, known := r.rolesOf(current)
	if !known {
		return errRoles
	}
	return r.writeBehindServices(ctx, roles, r.cordonOf(current), kv)
}

// writeBehindServices is write, once this node's services and its kube-apiserver let the
// record be written.
func (r *Registrar) writeBehindServices(ctx context.Context, roles protocol.Roles, cordon protocol.Cordon, previous etcd.KV) error {
	facts := r.cfg.Services.Get()
	facts.Wanted, facts.OtherAPIServer = roles.Controller, r.cfg.APIServer.Get() != ""
	if !nodeservices.MayRegister(facts) {
		return errServices
	}
	return r.write(ctx, roles, cordon, previous)
}

// rewrite replaces the record that was checked or written last. It returns etcd.ErrChanged if
// there is another one now, which must be checked first.
func (r *Registrar) rewrite(ctx context.Context) error {
	resp, err := r.cfg.Client.Get(ctx, r.keys.Node(r.cfg.Local.Get().ID))
	switch {
	case err != nil:
		return err
	case len(resp.Kvs) == 0 || resp.Kvs[0].ModRevision != r.last.Revision:
		return etcd.ErrChanged
	}
	return r.write(ctx, r.last.Node.Roles, r.last.Node.Cordon, etcd.NewKV(resp.Kvs[0]))
}

// write replaces the record if it is still previous (the zero KV: it is missing) and this
// instance holds the presence. It returns etcd.ErrChanged if not.
func (r *Registrar) write(ctx context.Context, roles protocol.Roles, cordon protocol.Cordon, previous etcd.KV) error {
	local, lease := r.cfg.Local.Get(), r.cfg.Presence.Get()
	if lease == clientv3.NoLease {
		return errNoPresence
	}
	key, presence := r.keys.Node(local.ID), r.keys.Presence(local.ID)
	sent := r.clock.now()
	rewinds := r.cfg.Client.Rewound().Get() // before the request: the answer may come from the older store
	node := protocol.Node{
		ID:            local.ID,
		Roles:         roles,
		Version:       local.Version,
		MinReconciler: local.Constraints.MinReconciler,
		Address:       r.cfg.Address,
		Digest:        local.Digest,
		Bundle:        local.Bundle,
		BootID:        r.cfg.BootID,
		ExpireAfter:   local.ExpireAfter,
		Ephemeral:     local.Ephemeral,
		Serves:        roles.Controller,
	}
	over, conds := r.cordonOverNow(cordon)
	if !over {
		node.Cordon = cordon
	}
	txn, err := r.cfg.Client.Write(ctx,
		append(conds,
			clientv3.Compare(clientv3.ModRevision(key), "=", previous.ModRevision),
			clientv3.Compare(clientv3.LeaseValue(presence), "=", lease),
		),
		clientv3.OpPut(key, string(encodeOver(previous.Value, node))), clientv3.OpGet(key), r.createStoreID())
	if err != nil {
		return fmt.Errorf("write node record: %w", err)
	}
	r.last = decodeRecord(local.ID, etcd.NewKV(txn.Responses[1].GetResponseRange().Kvs[0]))
	r.lastAt = etcd.At{Rewinds: rewinds, Revision: r.last.Revision}
	r.cfg.Trace.Report(trace.Event{Wrote: &trace.Wrote{Over: previous.ModRevision, Record: r.last, Local: local, BootID: r.cfg.BootID}})
	r.confirm(sent)
	return nil
}

// keep follows the record. It returns nil when the node must register again. It
// corrects other changes of the record without closing the gate.
func (r *Registrar) keep(ctx context.Context, rewound <-chan struct{}) error {
	confirmDue, stop := r.confirmTicks()
	defer stop()
	for {
		registration, registrationChanged := r.registration.Load()
		if registration.Overdue {
			return nil
		}
		_, presenceChanged := r.cfg.Presence.Load()
		fleet, fleetChanged := r.cfg.Fleet.Load()
		_, localChanged := r.cfg.Local.Load()
		_, storeChanged := r.cfg.Store.Load()
		storeRetry := r.keepStoreID(ctx)
		mustRegister, retry := r.checkRecord(ctx, fleet)
		if mustRegister {
			return nil
		}
		cordonEnds := r.cordonEnds()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rewound:
			r.cfg.Log.Warn("etcd went back to an older revision, registering again")
			return nil
		case <-presenceChanged:
			// A lease also ends with the store that knew it, when etcd is restored from a
			// backup. A failure is in Contact; the next check follows.
			_ = r.cfg.Client.Check(ctx)
			r.confirmPresence(ctx)
		case <-confirmDue:
			r.confirmPresence(ctx)
		case <-registrationChanged:
		case <-fleetChanged:
		case <-localChanged:
		case <-storeChanged:
		case <-storeRetry:
		case <-retry:
		case <-cordonEnds:
		}
	}
}

// checkRecord compares the observed record with this node's components and roles. It reports
// whether the node must register again. Otherwise it corrects the record, and retry reports
// when to check again after a failure.
func (r *Registrar) checkRecord(ctx context.Context, fleet protocol.Fleet) (mustRegister bool, retry <-chan time.Time) {
	at := etcd.At{Rewinds: fleet.Rewinds, Revision: fleet.Revision}
	if at.Before(r.lastAt) {
		return false, nil // the observation is older than the last check or write
	}
	local := r.cfg.Local.Get()
	record, exists := fleet.Record(local.ID)
	facts := noderecord.RegistrationFacts{Found: exists, Record: record, Last: r.last, Local: local, BootID: r.cfg.BootID}
	must := noderecord.MustRegister(facts)
	r.traceChecked(trace.Checked{Facts: facts, Must: must})
	if must {
		r.logMustRegister(facts)
		return true, nil
	}
	r.last, r.lastAt = record, at
	r.noteOver(time.Now())
	retry = r.correct(ctx)
	r.publishCordon()
	return false, retry
}

// logMustRegister says why the node registers again. That people changed its roles is no
// reason to worry.
func (r *Registrar) logMustRegister(f noderecord.RegistrationFacts) {
	has, had := f.Record.Node.Roles, f.Last.Node.Roles
	switch {
	case !f.Found:
		r.cfg.Log.Warn("this node's record was deleted, registering again")
	case f.Record.Problem != "":
		r.cfg.Log.Warn("this node's record is corrupt, registering again", "problem", f.Record.Problem)
	case has.Controller != had.Controller:
		r.cfg.Log.Info("this node's roles were changed, registering again", "roles", has.Names(), "before", had.Names())
	default:
		r.cfg.Log.Warn("this node's record was changed, registering again")
	}
}

// correct writes the record if its digest or address is old, or its cordon is over. The
// gate does not depend on digest and address. After a failure, retry reports when to try
// again.
func (r *Registrar) correct(ctx context.Context) (retry <-chan time.Time) {
	local, node := r.cfg.Local.Get(), r.last.Node
	current := node.Digest == local.Digest && node.Bundle == local.Bundle && node.Address == r.cfg.Address
	if over, _ := r.cordonOverNow(node.Cordon); current && !over {
		return nil
	}
	if err := r.rewrite(ctx); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("this node's record not corrected, trying again", "err", err)
		return time.After(backoff.Spread(maxRegisterPause))
	}
	return nil
}

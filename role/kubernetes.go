package role

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// Services are those of the controller role.
type Services interface {
	// Start starts them, in order, and keeps them running until Stop. Called again, it
	// does nothing.
	Start()
	// Stop stops all of them in the reverse order, and returns when they have ended. Those
	// that only a sidecar before this one started are stopped too, after the others. If ctx
	// ends first, it returns an error: they may still run.
	Stop(ctx context.Context) error
	// Running follows whether they run.
	Running() *event.Value[Running]
}

// Running is whether services run.
type Running struct {
	None     bool   // there are none, and nothing waits for them
	Any      bool   // one runs, or may run
	All      bool   // each of them runs
	Ready    bool   // each of them runs and is ready
	Left     bool   // an earlier sidecar started one that the directory no longer has
	Awaiting string // what is waited for, for people; empty: nothing
}

// KubernetesConfig is what a Kubernetes worker needs. All fields are required.
type KubernetesConfig struct {
	Services Services
	Roles    *event.Value[Local]
	// Presence reports whether this sidecar has the presence: then no other one has the node
	// ID. The channel is closed when that may have changed.
	Presence func() (held bool, changed <-chan struct{})
	Disk     *Disk
	Reads    bool   // there is a directory of services, maybe without one of the role
	Release  string // of this sidecar

	// Shown is the verdict of the gate, as /readyz shows it.
	Shown *event.Value[status.Verdict]
	// Leads is whether this node may still have the leader's key.
	Leads *event.Value[bool]

	// Published reports whether the address of this node may still leave the Service
	// kubernetes. The channel is closed when that may have changed.
	Published func() (published bool, changed <-chan struct{})

	ShutdownDelay time.Duration
	Log           *slog.Logger
}

// Kubernetes starts and stops the services of the controller role
// (docs/protocol.md#services). It reads the roles, the services, the presence, the verdict,
// the Service and the election, and writes Facts and Withheld.
type Kubernetes struct {
	cfg      KubernetesConfig
	facts    *event.Value[protocol.ServiceFacts]
	withheld *event.Value[string]
	stopping *event.Value[bool]
	idle     *event.Value[bool] // stopping, and no service runs

	// Only Run uses these.
	lastOpen time.Time // when the gate was open last; at first when Run began
	wasOpen  bool      // the gate was open in the round before
	alone    bool      // this sidecar has had the presence, or etcd did not answer for a while
	old      bool      // what runs was started for another release
	started  bool      // this sidecar has started services
}

// NewKubernetes returns a worker that has started nothing. It keeps the gate closed, if
// there are services.
func NewKubernetes(cfg KubernetesConfig) *Kubernetes {
	k := &Kubernetes{
		cfg: cfg, facts: event.New(protocol.ServiceFacts{}), withheld: event.New("the services of this node have not been started yet"),
		stopping: event.New(false), idle: event.New(false),
	}
	if cfg.Services.Running().Get().None && (!cfg.Reads || cfg.Disk.Loaded()) { // otherwise an earlier sidecar may have left some
		k.facts.Set(protocol.ServiceFacts{Complete: true, Ready: true})
		k.withheld.Set("")
	}
	return k
}

// Facts follows what the registrar has to know of the services.
func (k *Kubernetes) Facts() *event.Value[protocol.ServiceFacts] { return k.facts }

// Withheld follows why the services keep the gate closed; empty: they do not.
func (k *Kubernetes) Withheld() *event.Value[string] { return k.withheld }

// endStarts lets nothing start from here on.
func (k *Kubernetes) endStarts() { k.stopping.Set(true) }

// Stop stops the services, and returns when they have ended. Nothing starts after it.
// Run must still run.
func (k *Kubernetes) Stop(ctx context.Context) error {
	k.endStarts()
	for {
		idle, changed := k.idle.Load()
		if idle {
			return nil
		}
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// presencePatience is how long services wait for the presence: another sidecar may have the
// node ID. It is far longer than that takes where etcd answers. Where it does not, the
// node starts what it ran before.
const presencePatience = 3 * time.Second

// retryPause is the pause after services could not be stopped.
const retryPause = time.Second

// Run starts and stops the services until ctx ends, and returns ctx's error. It stops
// none then: Stop does.
func (k *Kubernetes) Run(ctx context.Context) error {
	k.lastOpen = time.Now()
	patience := time.NewTimer(presencePatience)
	defer patience.Stop()
	first := k.cfg.Services.Running().Get()
	k.old = first.Any && (k.cfg.Disk.StartedFor() != k.cfg.Release || first.Left)
	for {
		local, rolesChanged := k.cfg.Roles.Load()
		running, runningChanged := k.cfg.Services.Running().Load()
		shown, shownChanged := k.cfg.Shown.Load()
		leads, leadsChanged := k.cfg.Leads.Load()
		stopping, stoppingChanged := k.stopping.Load()
		isHeld, presenceChanged := k.cfg.Presence()
		published, publishedChanged := k.cfg.Published()
		k.alone = k.alone || isHeld
		if shown.Ready || k.wasOpen {
			k.lastOpen = time.Now()
		}
		k.wasOpen = shown.Ready
		// What a sidecar before this one started stays if this one never decided about it.
		runs := running.Any && (k.started || !stopping)
		facts := protocol.ServiceFacts{
			Known: local.Known() && k.alone || stopping, Wanted: local.Roles.Controller && !stopping,
			Running: runs, Old: runs && k.old,
			Complete: running.All, Ready: running.Ready,
			GateClosed: !shown.Ready, Published: published, Leads: leads,
			Closed: time.Since(k.lastOpen), ShutdownDelay: k.cfg.ShutdownDelay,
		}
		next := k.step(ctx, facts, running)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rolesChanged:
		case <-runningChanged:
		case <-shownChanged:
		case <-leadsChanged:
		case <-stoppingChanged:
		case <-presenceChanged:
		case <-publishedChanged:
		case <-patience.C:
			k.alone = true
		case <-next:
		}
	}
}

// step does the next step. The channel fires when the next one is due, if nothing changes.
func (k *Kubernetes) step(ctx context.Context, f protocol.ServiceFacts, running Running) (again <-chan time.Time) {
	step := protocol.NextServiceStep(f)
	k.publish(f, step, running)
	switch step {
	case protocol.AwaitAddress:
		return time.After(protocol.MaxAwaitAddress - f.Closed)
	case protocol.AwaitDelay:
		return time.After(f.ShutdownDelay - f.Closed)
	case protocol.StopServices:
		k.cfg.Log.Info("services stop", "old", f.Old, "published", f.Published)
		if err := k.cfg.Services.Stop(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.Error("services not stopped, trying again", "err", err)
			return time.After(retryPause)
		}
		k.old = false
	case protocol.StartServices:
		if err := k.cfg.Disk.SetStartedFor(k.cfg.Release); err != nil {
			k.cfg.Log.Error("services not started: their release cannot be kept on disk; trying again", "err", err)
			return time.After(retryPause)
		}
		k.started = true
		k.cfg.Services.Start()
	default: // what it waits for is a change
	}
	return nil
}

// publish shows what follows from a step, before it is taken.
func (k *Kubernetes) publish(f protocol.ServiceFacts, step protocol.ServiceStep, running Running) {
	told := f
	told.Closed = 0 // it would change all the time
	// What stops is not ready, until the next round observes it.
	told.Ready = told.Ready && step != protocol.StopServices
	set(k.facts, told)
	set(k.idle, step == protocol.Idle && k.stopping.Get())
	if running.None {
		set(k.withheld, "")
		return
	}
	switch step {
	case protocol.Serve:
		set(k.withheld, "")
	case protocol.StartServices, protocol.AwaitServices:
		if k.withheld.Get() != "" { // a service that fails later closes no gate
			set(k.withheld, "the services of this node are not ready yet: "+running.Awaiting)
		}
	case protocol.AwaitRoles:
		if k.withheld.Get() != "" {
			set(k.withheld, k.unknown())
		}
	case protocol.Idle:
		set(k.withheld, fmt.Sprintf("the services of this node do not run (%s)", k.why(f)))
	default:
		set(k.withheld, fmt.Sprintf("the services of this node stop (%s)", k.why(f)))
	}
}

// unknown says why it is not known yet what has to run.
func (k *Kubernetes) unknown() string {
	if k.cfg.Roles.Get().Known() {
		return "it is not known yet whether another sidecar has this node ID"
	}
	return "the roles of this node are not known yet: etcd has not answered, and none are on disk"
}

func (k *Kubernetes) why(f protocol.ServiceFacts) string {
	switch {
	case k.stopping.Get():
		return "the sidecar is stopping"
	case f.Old:
		return "an earlier sidecar started them, for release " + k.cfg.Disk.StartedFor()
	}
	return "it does not have the role " + protocol.RoleController
}

// set replaces a value that differs: a follower that sets another value in turn would
// otherwise never rest.
func set[T comparable](v *event.Value[T], to T) {
	if v.Get() != to {
		v.Set(to)
	}
}

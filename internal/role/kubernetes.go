package role

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/status"
)

// Services are the services of one role.
type Services interface {
	// Start starts the services in order, and keeps them running until Stop. Called again, it does
	// nothing.
	Start()
	// Stop stops the services in reverse order, and returns when all have ended. It then also stops
	// services that only an earlier sidecar started. If ctx ends first, it returns an error: some may
	// still run.
	Stop(ctx context.Context) error
	// Running follows whether they run.
	Running() *event.Value[Running]
}

// Running reports how far the services of a role run.
type Running struct {
	None     bool   // there are no services, and nothing waits for them
	Any      bool   // at least one runs, or may run
	All      bool   // all run
	Ready    bool   // all run and are ready
	Left     bool   // an earlier sidecar started one that the directory no longer contains
	Awaiting string // the reason to wait, for people; empty: none
}

// KubernetesConfig configures a Kubernetes worker. All fields are required.
type KubernetesConfig struct {
	Services Services
	Roles    *event.Value[Local]
	// Presence reports whether this sidecar holds the presence: then no other sidecar uses the node
	// ID. The channel is closed when the answer may have changed.
	Presence func() (held bool, changed <-chan struct{})
	Disk     *Disk
	Reads    bool   // there is a services directory, possibly without a service of the role
	Release  string // of this sidecar

	// Shown is the gate's verdict that clients see.
	Shown *event.Value[status.Verdict]
	// Leads is whether this node may still hold the leader's key.
	Leads *event.Value[bool]

	// Published reports whether this node's address may still leave the Service kubernetes. The
	// channel is closed when the answer may have changed.
	Published func() (published bool, changed <-chan struct{})

	// Changing is whether services stopped behind a closed gate to be changed, and are not ready yet.
	Changing *event.Value[bool]

	ShutdownDelay time.Duration
	Log           *slog.Logger
}

// Kubernetes starts and stops the services of the controller role
// (docs/protocol-nodes.md#services). It reads the roles, the services, the presence, the verdict,
// the Service and the election, and writes Facts and Withheld.
type Kubernetes struct {
	cfg      KubernetesConfig
	facts    *event.Value[nodeservices.Facts]
	withheld *event.Value[string]
	stopping *event.Value[bool]
	idle     *event.Value[bool] // stopping, and no service runs

	// Only Run uses these.
	lastOpen time.Time // when the gate was last open; at first when Run began
	wasOpen  bool      // the gate was open in the previous round
	alone    bool      // this sidecar once held the presence, or presencePatience is over
	old      bool      // what runs was started for another release, or left by an earlier sidecar
	started  bool      // this sidecar started services
}

// NewKubernetes returns a worker that starts nothing before Run. If there are services, it keeps
// the gate closed.
func NewKubernetes(cfg KubernetesConfig) *Kubernetes {
	k := &Kubernetes{
		cfg: cfg, facts: event.New(nodeservices.Facts{}), withheld: event.New("the services of this node have not been started yet"),
		stopping: event.New(false), idle: event.New(false),
	}
	if cfg.Services.Running().Get().None && (!cfg.Reads || cfg.Disk.Loaded()) { // otherwise an earlier sidecar may have left some
		k.facts.Set(nodeservices.Facts{Complete: true, Ready: true})
		k.withheld.Set("")
	}
	return k
}

// Facts follows the state of the services, for the registrar.
func (k *Kubernetes) Facts() *event.Value[nodeservices.Facts] { return k.facts }

// Withheld follows the reason why the services keep the gate closed; empty: they do not.
func (k *Kubernetes) Withheld() *event.Value[string] { return k.withheld }

// endStarts prevents any further start.
func (k *Kubernetes) endStarts() { k.stopping.Set(true) }

// Stop stops the services, and returns when all have ended. Nothing starts after it. Run must still
// run.
func (k *Kubernetes) Stop(ctx context.Context) error {
	k.endStarts()
	return event.Until(ctx, k.idle, event.Is)
}

// presencePatience is how long services wait for the presence, since another sidecar may use the
// node ID. Where etcd answers, the presence takes far less. Where etcd does not, the node then
// starts the services that it ran before.
const presencePatience = 3 * time.Second

// retryPause is the pause after a failed stop or start.
const retryPause = time.Second

// Run starts and stops the services until ctx ends, and returns ctx's error. It does not stop them
// then: call Stop before.
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
		// A sidecar that started no service leaves an earlier sidecar's services running when it stops.
		runs := running.Any && (k.started || !stopping)
		facts := nodeservices.Facts{
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

// step takes the next step. The channel fires when another one is due without a change.
func (k *Kubernetes) step(ctx context.Context, f nodeservices.Facts, running Running) (again <-chan time.Time) {
	step := nodeservices.Next(f)
	k.publish(f, step, running)
	switch step {
	case nodeservices.AwaitAddress:
		return time.After(nodeservices.MaxAwaitAddress - f.Closed)
	case nodeservices.AwaitDelay:
		return time.After(f.ShutdownDelay - f.Closed)
	case nodeservices.StopServices:
		k.cfg.Log.Info("services stop", "old", f.Old, "published", f.Published)
		if err := k.cfg.Services.Stop(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log.Error("services not stopped, trying again", "err", err)
			return time.After(retryPause)
		}
		k.old = false
	case nodeservices.StartServices:
		if err := k.cfg.Disk.SetStartedFor(k.cfg.Release); err != nil {
			k.cfg.Log.Error("services not started: their release cannot be kept on disk; trying again", "err", err)
			return time.After(retryPause)
		}
		k.started = true
		k.cfg.Services.Start()
	default: // wait for a change
	}
	return nil
}

// publish sets Facts, Withheld and idle for a step, before the step is taken.
func (k *Kubernetes) publish(f nodeservices.Facts, step nodeservices.Step, running Running) {
	told := f
	told.Closed = 0 // it would change all the time
	// Services about to stop are not ready; the next round observes it.
	told.Ready = told.Ready && step != nodeservices.StopServices
	event.SetIfNew(k.facts, told)
	event.SetIfNew(k.idle, step == nodeservices.Idle && k.stopping.Get())
	if running.None {
		event.SetIfNew(k.withheld, "")
		return
	}
	switch step {
	case nodeservices.Serve:
		event.SetIfNew(k.withheld, "")
	case nodeservices.StartServices, nodeservices.AwaitServices:
		// A service that fails later closes no gate, but a gate that is closed waits for its change.
		if k.withheld.Get() != "" || f.GateClosed && k.cfg.Changing.Get() {
			event.SetIfNew(k.withheld, "the services of this node are not ready yet: "+running.Awaiting)
		}
	case nodeservices.AwaitRoles:
		if k.withheld.Get() != "" {
			event.SetIfNew(k.withheld, k.unknown())
		}
	case nodeservices.Idle:
		event.SetIfNew(k.withheld, fmt.Sprintf("the services of this node do not run (%s)", k.why(f)))
	default:
		event.SetIfNew(k.withheld, fmt.Sprintf("the services of this node stop (%s)", k.why(f)))
	}
}

// unknown explains why this sidecar does not know yet whether its services must run.
func (k *Kubernetes) unknown() string {
	if k.cfg.Roles.Get().Known() {
		return "the services of this node start in a moment: this sidecar first checks that no other one has its node ID"
	}
	return "the roles of this node are not known yet: etcd has not answered, and none are on disk"
}

func (k *Kubernetes) why(f nodeservices.Facts) string {
	switch {
	case k.stopping.Get():
		return "the sidecar is stopping"
	case f.Old:
		return "an earlier sidecar started them, for release " + k.cfg.Disk.StartedFor()
	}
	return "it does not have the role " + protocol.RoleController
}

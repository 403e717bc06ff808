package role

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
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

// StarterConfig configures a Starter. Disk may be nil: nothing is kept. Without ShutdownDelay, services stop at once.
type StarterConfig struct {
	Role     string
	Services Services
	Roles    *event.Value[Local]
	// Presence reports whether this sidecar holds the presence: then no other sidecar uses the node
	// ID. The channel is closed when the answer may have changed.
	Presence func() (held bool, changed <-chan struct{})
	Disk     *Disk
	Reads    bool   // there is a services directory, possibly without a service of the role
	Release  string // of this sidecar; empty: services started for another release go on running

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

// Starter starts and stops the services of a role (docs/protocol-nodes.md#services). It reads the roles,
// the services, the presence, the verdict, the Service and the election, and writes Facts and Withheld.
type Starter struct {
	cfg      StarterConfig
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

// NewStarter returns a worker that starts nothing before Run. If there are services, it keeps
// the gate closed.
func NewStarter(cfg StarterConfig) *Starter {
	s := &Starter{
		cfg: cfg, facts: event.New(nodeservices.Facts{}), withheld: event.New("the services of this node have not been started yet"),
		stopping: event.New(false), idle: event.New(false),
	}
	if cfg.Services.Running().Get().None && (!cfg.Reads || cfg.Disk.Loaded()) { // otherwise an earlier sidecar may have left some
		s.facts.Set(nodeservices.Facts{Complete: true, Ready: true})
		s.withheld.Set("")
	}
	return s
}

// newUngated returns a Starter for a role whose order does not depend on the gate: it observes a
// node that no client uses.
func newUngated(role string, services Services, roles *event.Value[Local], log *slog.Logger) *Starter {
	return NewStarter(StarterConfig{
		Role: role, Services: services, Roles: roles, Presence: held(event.New(true)), Published: held(event.New(false)),
		Shown: event.New(status.Verdict{}), Leads: event.New(false), Changing: event.New(false), Log: log.With("role", role),
	})
}

// Facts follows the state of the services, for the registrar.
func (s *Starter) Facts() *event.Value[nodeservices.Facts] { return s.facts }

// Withheld follows the reason why the services keep the gate closed; empty: they do not.
func (s *Starter) Withheld() *event.Value[string] { return s.withheld }

// endStarts prevents any further start.
func (s *Starter) endStarts() { s.stopping.Set(true) }

// Stop stops the services, and returns when all have ended. Nothing starts after it. Run must still
// run.
func (s *Starter) Stop(ctx context.Context) error {
	s.endStarts()
	return event.Until(ctx, s.idle, event.Is)
}

// presencePatience is how long services wait for the presence, since another sidecar may use the
// node ID. Where etcd answers, the presence takes far less. Where etcd does not, the node then
// starts the services that it ran before.
const presencePatience = 3 * time.Second

// retryPause is the pause after a failed stop or start.
const retryPause = time.Second

// Run starts and stops the services until ctx ends, and returns ctx's error. It does not stop them
// then: call Stop before.
func (s *Starter) Run(ctx context.Context) error {
	s.lastOpen = time.Now()
	patience := time.NewTimer(presencePatience)
	defer patience.Stop()
	first := s.cfg.Services.Running().Get()
	s.old = first.Any && s.cfg.Release != "" && (s.cfg.Disk.StartedFor() != s.cfg.Release || first.Left)
	for {
		local, rolesChanged := s.cfg.Roles.Load()
		running, runningChanged := s.cfg.Services.Running().Load()
		shown, shownChanged := s.cfg.Shown.Load()
		leads, leadsChanged := s.cfg.Leads.Load()
		stopping, stoppingChanged := s.stopping.Load()
		isHeld, presenceChanged := s.cfg.Presence()
		published, publishedChanged := s.cfg.Published()
		s.alone = s.alone || isHeld
		if shown.Ready || s.wasOpen {
			s.lastOpen = time.Now()
		}
		s.wasOpen = shown.Ready
		// A sidecar that started no service leaves an earlier sidecar's services running when it stops.
		runs := running.Any && (s.started || !stopping)
		facts := nodeservices.Facts{
			Known: local.Known() && s.alone || stopping, Wanted: slices.Contains(local.Roles.Names(), s.cfg.Role) && !stopping,
			Running: runs, Old: runs && s.old,
			Complete: running.All, Ready: running.Ready,
			GateClosed: !shown.Ready, Published: published, Leads: leads,
			Closed: time.Since(s.lastOpen), ShutdownDelay: s.cfg.ShutdownDelay,
		}
		next := s.step(ctx, facts, running)
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
			s.alone = true
		case <-next:
		}
	}
}

// step takes the next step. The channel fires when another one is due without a change.
func (s *Starter) step(ctx context.Context, f nodeservices.Facts, running Running) (again <-chan time.Time) {
	step := nodeservices.Next(f)
	s.publish(f, step, running)
	switch step {
	case nodeservices.AwaitAddress:
		return time.After(nodeservices.MaxAwaitAddress - f.Closed)
	case nodeservices.AwaitDelay:
		return time.After(f.ShutdownDelay - f.Closed)
	case nodeservices.StopServices:
		s.cfg.Log.Info("services stop", "old", f.Old, "published", f.Published)
		if err := s.cfg.Services.Stop(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("services not stopped, trying again", "err", err)
			return time.After(retryPause)
		}
		s.old = false
	case nodeservices.StartServices:
		if err := s.cfg.Disk.SetStartedFor(s.cfg.Release); err != nil {
			s.cfg.Log.Error("services not started: their release cannot be kept on disk; trying again", "err", err)
			return time.After(retryPause)
		}
		s.started = true
		s.cfg.Services.Start()
	default: // wait for a change
	}
	return nil
}

// publish sets Facts, Withheld and idle for a step, before the step is taken.
func (s *Starter) publish(f nodeservices.Facts, step nodeservices.Step, running Running) {
	told := f
	told.Closed = 0 // it would change all the time
	// Services about to stop are not ready; the next round observes it.
	told.Ready = told.Ready && step != nodeservices.StopServices
	event.SetIfNew(s.facts, told)
	event.SetIfNew(s.idle, step == nodeservices.Idle && s.stopping.Get())
	if running.None {
		event.SetIfNew(s.withheld, "")
		return
	}
	switch step {
	case nodeservices.Serve:
		event.SetIfNew(s.withheld, "")
	case nodeservices.StartServices, nodeservices.AwaitServices:
		// A service that fails later closes no gate, but a gate that is closed waits for its change.
		if s.withheld.Get() != "" || f.GateClosed && s.cfg.Changing.Get() {
			event.SetIfNew(s.withheld, "the services of this node are not ready yet: "+running.Awaiting)
		}
	case nodeservices.AwaitRoles:
		if s.withheld.Get() != "" {
			event.SetIfNew(s.withheld, s.unknown())
		}
	case nodeservices.Idle:
		event.SetIfNew(s.withheld, fmt.Sprintf("the services of this node do not run (%s)", s.why(f)))
	default:
		event.SetIfNew(s.withheld, fmt.Sprintf("the services of this node stop (%s)", s.why(f)))
	}
}

// unknown explains why this sidecar does not know yet whether its services must run.
func (s *Starter) unknown() string {
	if s.cfg.Roles.Get().Known() {
		return "the services of this node start in a moment: this sidecar first checks that no other one has its node ID"
	}
	return "the roles of this node are not known yet: etcd has not answered, and none are on disk"
}

func (s *Starter) why(f nodeservices.Facts) string {
	switch {
	case s.stopping.Get():
		return "the sidecar is stopping"
	case f.Old:
		return "an earlier sidecar started them, for release " + s.cfg.Disk.StartedFor()
	}
	return "it does not have the role " + s.cfg.Role
}

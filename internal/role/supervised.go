package role

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
)

// SupervisedConfig configures Supervised. All fields are required.
type SupervisedConfig struct {
	// Loaded are the services in the directory, of all roles.
	Loaded *event.Value[[]service.Service]
	// Variables are the values for variables in services. While EtcdServers is empty they are not
	// known yet, and nothing starts.
	Variables *event.Value[service.Variables]
	// Disk lists the services that an earlier sidecar started. It is read before Run.
	Disk *Disk
	Log  *slog.Logger

	// Supervisor may set NewDriver and NewProbe; Supervised sets the rest.
	Supervisor service.Config
}

// Supervised runs the services of a directory, with one supervisor for all roles. It reads the
// services, the variables and the state of the supervisor, and writes the Running of each role.
type Supervised struct {
	cfg        SupervisedConfig
	supervisor *service.Supervisor

	mu     sync.Mutex // mu guards the fields below, the fields of each Group, and the order of Reload
	roles  []*Group
	wanted []service.Service // the last argument of Reload
	reload int               // its number
	// left are services of an earlier sidecar that the directory no longer contains. It is known once
	// foundLeft is true.
	left      []service.Started
	foundLeft bool
	// problem is the reason why nothing starts now; empty: none.
	problem string

	asked *event.Value[struct{}] // changes at each Start
}

// NewSupervised returns a Supervised that has started no service.
func NewSupervised(cfg SupervisedConfig) *Supervised {
	cfg.Supervisor.Log, cfg.Supervisor.Known = cfg.Log, cfg.Loaded.Get()
	return &Supervised{cfg: cfg, supervisor: service.New(cfg.Supervisor), asked: event.New(struct{}{})}
}

// State follows the state of the services that were started.
func (s *Supervised) State() *event.Value[service.State] { return s.supervisor.State() }

// StopLimit is the longest time that stopping all services may take.
func (s *Supervised) StopLimit() time.Duration {
	limit := stopMargin
	for _, svc := range s.cfg.Loaded.Get() {
		limit += svc.StopTimeout
	}
	return limit
}

// stopMargin is the time for SIGKILL, and for the end of a service, after its stop timeout.
const stopMargin = 10 * time.Second

// EndStarts prevents any further start. Running services continue.
func (s *Supervised) EndStarts() { s.supervisor.EndStarts() }

// Run runs the services until ctx ends. Then it stops those that still run, and returns ctx's
// error.
func (s *Supervised) Run(ctx context.Context) error {
	result := make(chan error, 1) // the one result of the supervisor
	go func() { result <- s.supervisor.Run(ctx) }()
	for {
		changes := event.Changes(s.cfg.Loaded, s.cfg.Variables, s.supervisor.State(), s.asked)
		s.refresh(func() {})
		s.stopDue(ctx)
		if !s.await(ctx, changes...) {
			return <-result
		}
	}
}

// refresh calls change, passes the services to run to the supervisor, and updates the Running of
// each role. It returns the number of the newest Reload.
func (s *Supervised) refresh(change func()) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	variables := s.cfg.Variables.Get()
	var all []service.Service
	for _, r := range s.roles {
		r.wanted = nil
	}
	for _, svc := range s.expanded(variables) {
		for _, r := range s.roles {
			if r.role == svc.Role && r.running && variables.EtcdServers != "" {
				r.wanted = append(r.wanted, svc)
				all = append(all, svc)
			}
		}
	}
	all = s.startable(all)
	if s.reload == 0 || !reflect.DeepEqual(all, s.wanted) {
		s.wanted, s.reload = all, s.supervisor.Reload(all)
	}
	now := s.supervisor.State().Get()
	for _, r := range s.roles {
		event.SetIfNew(r.state, r.observe(now, variables))
	}
	return s.reload
}

// expanded returns all services with their variables replaced. They were loaded, so each variable
// is known.
func (s *Supervised) expanded(v service.Variables) []service.Service {
	all, err := service.Expand(s.cfg.Loaded.Get(), v)
	if err != nil {
		panic(err) // a fault of this program
	}
	return all
}

// Of returns the services of a role. It is called once for each role, before Run.
func (s *Supervised) Of(role string) *Group {
	r := &Group{supervised: s, role: role}
	r.state = event.New(Running{})
	s.refresh(func() { s.roles = append(s.roles, r) })
	return r
}

// Group is the services of one role. It implements Services.
type Group struct {
	supervised *Supervised
	role       string
	state      *event.Value[Running]

	// s.mu guards the fields below.
	decided bool              // Start or Stop was called
	running bool              // Start was called last
	wanted  []service.Service // the services that the supervisor runs
	left    []service.Service // services that the next Stop has to stop, and that this sidecar did not start
}

// Running implements Services. Before the first Start or Stop, units and pods of an earlier sidecar
// may run. Processes cannot: they end with the sidecar that started them.
func (r *Group) Running() *event.Value[Running] { return r.state }

// observe needs the lock.
func (r *Group) observe(now service.State, v service.Variables) Running {
	own := service.OfRole(r.supervised.cfg.Loaded.Get(), r.role)
	left := len(r.leftOf()) > 0
	switch {
	case len(own) == 0 && !left:
		return Running{None: true, Any: r.remains(now), All: true, Ready: true}
	case !r.decided:
		return Running{Any: left || slices.ContainsFunc(own, outlives), Left: left, Awaiting: "they have not been started yet"}
	case !r.running:
		return Running{Any: r.remains(now) || left, Left: left}
	case r.supervised.problem != "":
		return Running{Any: true, Left: left, Awaiting: r.supervised.problem}
	case v.EtcdServers == "":
		return Running{Any: true, All: true, Awaiting: "it is not known yet how to reach etcd"}
	}
	awaiting := now.Unready(r.wanted)
	return Running{Any: true, All: now.Runs(r.wanted), Ready: awaiting == "", Awaiting: awaiting}
}

// remains reports whether a service of the role has not stopped yet.
func (r *Group) remains(now service.State) bool {
	return slices.ContainsFunc(now.Services, func(st service.Status) bool { return st.Role == r.role })
}

// outlives reports whether a service may have outlived the sidecar that started it.
func outlives(svc service.Service) bool { return svc.Process == nil }

// Start implements Services.
func (r *Group) Start() {
	r.supervised.refresh(func() { r.decided, r.running = true, true })
	r.supervised.asked.Set(struct{}{})
}

// Stop implements Services.
func (r *Group) Stop(ctx context.Context) error {
	started := true
	number := r.supervised.refresh(func() {
		if r.running {
			r.left = slices.Concat(servicesOf(r.leftOf()), r.notStarted())
		}
		started = r.decided
		r.decided, r.running = true, false
	})
	if !started {
		return r.stopLeft(ctx, r.ownAndLeft())
	}
	stopped := func(now service.State) bool { return now.Reload >= number && !r.remains(now) }
	if err := event.Until(ctx, r.supervised.supervisor.State(), stopped); err != nil {
		return fmt.Errorf("services of the role %s still run: %w", r.role, err)
	}
	err := r.stopLeft(ctx, r.takeLeft())
	r.supervised.refresh(func() {}) // Running shows it when Stop returns
	return err
}

// own returns all services of the role.
func (r *Group) own() []service.Service {
	return service.OfRole(r.supervised.expanded(r.supervised.cfg.Variables.Get()), r.role)
}

// takeLeft returns left, and empties it.
func (r *Group) takeLeft() []service.Service {
	r.supervised.mu.Lock()
	defer r.supervised.mu.Unlock()
	left := r.left
	r.left = nil
	return left
}

// notStarted returns the services that this sidecar was asked to start and did not: it may not know
// how to reach etcd, or an earlier service is not ready. An earlier sidecar may have started them.
// It needs the lock.
func (r *Group) notStarted() []service.Service {
	now := r.supervised.supervisor.State().Get()
	return slices.DeleteFunc(r.own(), func(svc service.Service) bool {
		return !outlives(svc) || slices.ContainsFunc(now.Services, func(st service.Status) bool {
			return st.Name == svc.Name && st.Phase != service.Waiting
		})
	})
}

// stopLeft stops services that an earlier sidecar started.
func (r *Group) stopLeft(ctx context.Context, left []service.Service) error {
	s := r.supervised
	err := service.StopAll(ctx, s.cfg.Supervisor, left)
	s.refresh(func() {
		if err != nil {
			r.decided = false // they may still run: the next Stop tries again
			return
		}
		s.forget(left)
	})
	return err
}

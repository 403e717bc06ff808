package role

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/status"
)

// story lists the events in their order.
type story struct {
	mu    sync.Mutex // mu guards steps
	steps []string
}

func (s *story) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step)
}

func (s *story) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.steps
	s.steps = nil
	return out
}

// worker returns a worker that runs until its context ends, or until fails is closed.
func (s *story) worker(name string, fails <-chan struct{}) supervise.Worker {
	return func(ctx context.Context) error {
		s.add(name + " starts")
		defer s.add(name + " ends")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fails:
			return errBroken
		}
	}
}

var errBroken = errors.New("broken")

// newTestServer returns a server without services, on fake parts. Its registrar is one, too:
// so etcd is never asked. Its worker that publishes the gate renders it, too.
func newTestServer(s *story, fails <-chan struct{}, published *event.Value[bool]) *Server {
	log := slog.New(slog.NewTextHandler(s, nil))
	local, contact := event.New(protocol.Local{ID: "a", Ephemeral: true}), event.New(etcd.Contact{})
	var server *Server
	cfg := ServerConfig{
		Registrar: fleet.RegistrarConfig{Client: &etcd.Client{}, Local: local, Fleet: event.New(protocol.Fleet{}), Log: log},
		Gate:      status.GateConfig{Store: status.NewStore(&etcd.Client{}), Local: local, Contact: contact, Log: log},
		Presence: PresenceConfig{
			Run: s.worker("presence", nil), Rest: func() { s.add("the presence rests") },
			Show: func(ctx context.Context) error { return s.render(ctx, server.Gate()) },
		},
		Election: ElectionConfig{Run: s.worker("election", fails), Leads: event.New(false)},
		APIServer: APIServerConfig{Published: published.Load, Refuses: func(context.Context) bool {
			s.once("it asks whether the kube-apiserver has stopped")
			return false
		}},
		Services: ServicesConfig{Variables: event.New(service.Variables{})},
		Roles:    RolesConfig{Hold: func(context.Context) error { return nil }},
		Cluster:  inNoCluster{story: s}, ShutdownDelay: 5 * time.Second, Supervisor: supervise.New(log, nil), Log: log,
	}
	cfg.Registrar.Presence = zero(cfg.Registrar.Presence)
	cfg.Registrar.Presence.Set(1)
	server = NewServer(cfg)
	return server
}

// render shows each verdict of a gate after a second.
func (s *story) render(ctx context.Context, gate *status.Gate) error {
	for {
		verdict, changed := gate.Verdict().Load()
		if verdict.Reason == protocol.ShuttingDown {
			s.once("gate closes")
		}
		gate.Show(verdict)
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// once adds a step that the story does not end with.
func (s *story) once(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.steps) == 0 || s.steps[len(s.steps)-1] != step {
		s.steps = append(s.steps, step)
	}
}

// Write is a log. It adds that the record stays.
func (s *story) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "record not deleted, leaders wait until it expires") {
		s.add("the record is left")
	}
	return len(line), nil
}

// inNoCluster is a cluster whose member is never changed. It replaces the registrar.
type inNoCluster struct {
	Cluster
	story *story
}

func (inNoCluster) MemberFacts(context.Context) (membership.Facts, error) {
	return membership.Facts{}, nil
}

func (inNoCluster) Trouble(string) {}

func (c inNoCluster) InCluster(run func(context.Context) error) func(context.Context) error {
	if strings.Contains(runtime.FuncForPC(reflect.ValueOf(run).Pointer()).Name(), "Registrar") {
		return c.story.worker("registrar", nil)
	}
	return run
}

// zero returns an event value of the same type, with the zero value.
func zero[T any](_ *event.Value[T]) *event.Value[T] {
	var none T
	return event.New(none)
}

// A server starts its workers, and stops them in order. If one fails, it waits for nothing, and
// returns why.
func TestServer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fails bool
		want  []string // before the presence ends
		took  time.Duration
	}{
		{"it is asked to stop", false, []string{"gate closes", "address leaves", "election ends", "it asks whether the kube-apiserver has stopped"}, 5*time.Second + noderecord.StopWait},
		{"a worker fails", true, []string{"election ends", "gate closes"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, broken, published := &story{}, make(chan struct{}), event.New(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server := newTestServer(s, broken, published)
			result := make(chan error, 1)
			go func() { result <- server.Run(ctx) }()
			<-time.After(time.Hour)
			started := s.read()
			slices.Sort(started)
			if !slices.Equal(started, []string{"election starts", "presence starts", "registrar starts"}) {
				t.Errorf("%s: got %q", tc.name, started)
			}
			began := time.Now()
			if tc.fails {
				close(broken)
			} else {
				cancel()
				<-time.After(time.Second)
				s.add("address leaves")
				published.Set(false)
			}
			err := <-result
			if took := time.Since(began); took != tc.took || errors.Is(err, errBroken) != tc.fails || err != nil && !tc.fails {
				t.Errorf("%s: it took %s, want %s, and returned %v", tc.name, took, tc.took, err)
			}
			end := []string{"registrar ends", "the record is left", "presence ends"}
			if got, want := s.read(), slices.Concat(tc.want, end); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", tc.name, got, want)
			}
		})
	}
}

package role

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
// so etcd is never asked.
func newTestServer(s *story, fails <-chan struct{}, published *event.Value[bool]) *Server {
	log := slog.New(slog.DiscardHandler)
	local, contact := event.New(protocol.Local{}), event.New(etcd.Contact{})
	entered := 0
	cfg := ServerConfig{
		Node: "a", First: controller, Release: "1.1.0",
		Registrar: fleet.RegistrarConfig{Client: &etcd.Client{}, Local: local, Fleet: event.New(protocol.Fleet{}), Log: log},
		Gate:      status.GateConfig{Store: status.NewStore(&etcd.Client{}), Local: local, Contact: contact, Log: log},
		Shown:     (&story{}).worker("shown", nil), Presence: s.worker("presence", nil), Election: s.worker("election", fails),
		Enter: func(run supervise.Worker) supervise.Worker {
			if entered++; entered == 1 {
				return run // of the presence
			}
			return s.worker("registrar", nil)
		},
		Variables: event.New(service.Variables{}), Hold: func(context.Context) error { return nil },
		Displayed: event.New(status.Verdict{}), Leads: event.New(false), Published: published.Load,
		CloseGate: func(_ context.Context, failure error) { s.add(fmt.Sprint("gate closes: ", failure)) },
		AwaitLeaving: func(context.Context, time.Time) protocol.LeaveFacts {
			s.add("it is decided whether the record stays")
			return protocol.LeaveFacts{}
		},
		Leave:         func(context.Context, protocol.LeaveFacts) { s.add("the record is left") },
		ShutdownDelay: 5 * time.Second, Supervisor: supervise.New(log, nil), Log: log,
	}
	cfg.Registrar.Presence = zero(cfg.Registrar.Presence)
	return NewServer(cfg)
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
		{"it is asked to stop", false, []string{"gate closes: <nil>", "address leaves", "election ends"}, 5 * time.Second},
		{"a worker fails", true, []string{"election ends", "gate closes: election: broken"}, 0},
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
			end := []string{"it is decided whether the record stays", "registrar ends", "the record is left", "presence ends"}
			if got, want := s.read(), slices.Concat(tc.want, end); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", tc.name, got, want)
			}
		})
	}
}

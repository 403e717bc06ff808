package role

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/status"
)

// changeRig is a node that serves with one service, whose file the test changes.
type changeRig struct {
	*supervisedRig
	server *Server
	values *event.Value[service.Variables]
}

func newChangeRig(t *testing.T) *changeRig {
	t.Helper()
	r := &changeRig{supervisedRig: newSupervisedRigOf(t, nil, process("api", protocol.RoleController, "/1"))}
	r.variables.Set(service.Variables{EtcdServers: "http://a", EtcdCAFile: "/ca", EtcdTrust: "one"})
	r.values = event.New(r.variables.Get())
	r.server = &Server{
		cfg:        ServerConfig{Services: ServicesConfig{Variables: r.values}},
		variables:  r.variables,
		gate:       status.NewGate(status.GateConfig{Local: event.New(protocol.Local{}), Log: slog.New(slog.DiscardHandler)}),
		turn:       event.New(turn{}),
		supervised: r.supervised, loaded: r.loaded, found: event.New(r.loaded.Get()), pending: event.New(""), changing: event.New(false),
	}
	r.server.gate.Show(status.Verdict{Verdict: protocol.Verdict{Ready: true}})
	r.controller.Start()
	<-time.After(time.Second)
	r.want("start api /1")
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = r.server.keepLoaded(ctx) })
	t.Cleanup(func() { cancel(); run.Wait() })
	return r
}

func (r *changeRig) change(command string) {
	r.server.found.Set([]service.Service{process("api", protocol.RoleController, command)})
	synctest.Wait()
}

func (r *changeRig) gate(isOpen bool) {
	r.server.gate.Show(status.Verdict{Verdict: protocol.Verdict{Ready: isOpen}})
	synctest.Wait()
}

// A service that clients use stops only after the drain, also if the gate is seen closed before its
// turn is known. Then the gate stays closed until the service is ready.
func TestServer_keepLoaded(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newChangeRig(t)
			r.change("/2")
			<-time.After(time.Hour)
			r.want()
			if r.server.pending.Get() == "" {
				t.Error("the service waits, and that is not shown")
			}
			if known {
				r.server.turn.Set(turn{draining: true})
				<-time.After(time.Hour)
				r.want()
			}
			r.gate(false)
			<-time.After(nodeservices.TurnDrain - time.Millisecond)
			r.want()
			if r.server.changing.Get() {
				t.Error("nothing has stopped, and the gate is held")
			}
			r.server.turn.Set(turn{})
			<-time.After(time.Millisecond)
			synctest.Wait()
			if !r.server.changing.Get() {
				t.Error("the service stops, and the gate may open")
			}
			<-time.After(2 * time.Second)
			r.want("stop api /1", "start api /2")
			if r.server.changing.Get() || !r.server.changed() || r.server.pending.Get() != "" {
				t.Error("the service is ready, and the gate is held")
			}
		})
	}
}

// Other CAs in the file that a service reads wait for a turn, as a change of its file does. Other servers of etcd do not:
// without them the service would not be ready.
func TestServer_keepLoaded_variables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t)
		r.gate(false)
		r.change("/2 $(ETCD_CAFILE)")
		<-time.After(time.Hour)
		r.want("stop api /1", "start api /2 /ca")
		r.gate(true)
		trust := r.values.Get()
		trust.EtcdTrust = "one,two"
		r.values.Set(trust)
		<-time.After(time.Hour)
		r.want()
		if r.server.pending.Get() == "" || r.server.changed() {
			t.Error("the service waits, and that is not shown")
		}
		r.server.turn.Set(turn{draining: true})
		r.gate(false)
		<-time.After(time.Hour)
		r.want("stop api /2 /ca", "start api /2 /ca")
		r.server.turn.Set(turn{})
		r.gate(true)
		if !r.server.changed() {
			t.Error("the service is ready, and that is not known")
		}
		servers := r.values.Get()
		servers.EtcdServers, servers.EtcdTrust = "http://b", "two"
		r.values.Set(servers)
		<-time.After(time.Hour)
		r.want("stop api /2 /ca", "start api /2 /ca")
	})
}

// A change that waits stops nothing while the sidecar stops: clients leave for its whole delay.
func TestServer_keepLoaded_stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t)
		r.change("/2")
		r.server.stopping.Set(true)
		r.gate(false)
		<-time.After(time.Hour)
		r.want()
	})
}

// A service that moves to another file, or that waits for a turn from now on, is not started again, and what is shown of it
// follows.
func TestServer_keepLoaded_anotherFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newChangeRig(t)
		moved := process("api", protocol.RoleController, "/1")
		moved.Source = service.Source{File: "20-api.yaml"}
		r.server.found.Set([]service.Service{moved})
		<-time.After(time.Hour)
		r.want()
		if got := r.loaded.Get()[0].Source; got != moved.Source || r.server.pending.Get() != "" {
			t.Errorf("the file of the service is %v, and waits: %q", got, r.server.pending.Get())
		}
	})
}

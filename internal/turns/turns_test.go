package turns

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/nodeturns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "/lockstep/"

// rig is node a of a fleet of two, in a real etcd.
type rig struct {
	*testing.T
	raw    *clientv3.Client
	client *etcd.Client
	fleet  *event.Value[protocol.Fleet]
	node   *Node
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := etcdtest.New(t)
	client, err := etcd.NewClient(etcd.Config{
		Endpoints: server.Endpoints(), Prefix: prefix, RequestTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r := &rig{T: t, raw: server.Client(t), client: client, fleet: event.New(protocol.Fleet{})}
	r.node = newNode(r.fleet, false)
	r.node.cfg.Client = client
	for _, id := range []protocol.NodeID{"a", "b"} {
		r.put(keyspace.Under(prefix).Node(id), fleet.Encode(protocol.Node{ID: id, Roles: protocol.Roles{Controller: true}}))
		r.present(id, true)
	}
	return r
}

// newNode returns node a without etcd.
func newNode(f *event.Value[protocol.Fleet], published bool) *Node {
	never := make(chan struct{})
	return New(Config{
		Node: "a", BootID: "now", Fleet: f, Log: slog.New(slog.DiscardHandler),
		Voters:    func() ([]protocol.Voter, <-chan struct{}) { return nil, never },
		Published: func() (bool, <-chan struct{}) { return published, never },
	})
}

func (r *rig) put(key string, value []byte) {
	r.Helper()
	if _, err := r.raw.Put(r.Context(), key, string(value)); err != nil {
		r.Fatal(err)
	}
}

// present shows a node's gate as open or closed.
func (r *rig) present(id protocol.NodeID, ready bool) {
	r.Helper()
	reason := protocol.Ready
	if !ready {
		reason = protocol.Cordoned
	}
	value, err := proto.Marshal(&lockstepv1.Presence{Instance: string(id), Ready: ready, Reason: string(reason)})
	if err != nil {
		r.Fatal(err)
	}
	r.put(keyspace.Under(prefix).Presence(id), value)
	r.observe()
}

// observe shows the node what is in etcd, and returns its turn.
func (r *rig) observe() (protocol.Turn, bool) {
	r.Helper()
	f, err := fleet.List(r.Context(), r.client)
	if err != nil {
		r.Fatal(err)
	}
	r.fleet.Set(f)
	return f.Turns.Of("a")
}

// take gives a node a turn that began a minute ago.
func (r *rig) take(id protocol.NodeID, kind protocol.TurnKind, by, boot string) protocol.Turn {
	r.Helper()
	began := time.Now().Add(-time.Minute).UTC()
	answer, _, err := fleet.TakeTurn(r.Context(), r.client, protocol.Turn{
		Node: id, Kind: kind, By: by, BootID: boot, Since: began, Until: began.Add(time.Hour), Message: "x",
	}, nil, 0)
	if err != nil || answer.Verdict != nodeturns.Granted {
		r.Fatalf("got %+v, %v", answer, err)
	}
	turn, _ := r.observe()
	return turn
}

// wantWork checks the work of node a's turn.
func (r *rig) wantWork(want protocol.TurnWork) {
	r.Helper()
	if turn, found := r.observe(); !found || turn.Work != want {
		r.Errorf("got %+v, %v, want %s", turn, found, want)
	}
}

func TestNode_StepOfServices(t *testing.T) {
	r := newRig(t)
	turn := r.take("a", protocol.TurnOfServices, "the sidecar", "")
	step := func(action nodeservices.TurnAction) {
		turn, _ = r.observe()
		r.node.StepOfServices(t.Context(), action, turn)
	}
	step(nodeservices.FailTurn)
	r.wantWork(protocol.TurnWorkFailed)
	step(nodeservices.ContinueTurn)
	r.wantWork(protocol.TurnWorkUnderWay)

	step(nodeservices.FinishTurn) // its work is done, and its cordon ends
	r.wantWork(protocol.TurnWorkDone)
	r.present("a", false)
	step(nodeservices.FinishTurn) // it does not serve yet
	r.wantWork(protocol.TurnWorkDone)
	r.present("a", true)
	step(nodeservices.FinishTurn)
	if turn, found := r.observe(); found {
		t.Errorf("it serves again: got %+v", turn)
	}

	r.take("a", protocol.TurnOfServices, "the sidecar", "")
	step(nodeservices.GiveBackTurn)
	if turn, found := r.observe(); found {
		t.Errorf("given back: got %+v", turn)
	}
}

// The sidecar's fleet lags: people have ended the turn of its services, and a command has taken one.
func TestNode_StepOfServices_lags(t *testing.T) {
	for name, action := range map[string]nodeservices.TurnAction{
		"given back": nodeservices.GiveBackTurn, "failed": nodeservices.FailTurn, "finished": nodeservices.FinishTurn,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			had := r.take("a", protocol.TurnOfServices, "the sidecar", "")
			if _, err := fleet.ForceTurnEnd(t.Context(), r.client, "a"); err != nil {
				t.Fatal(err)
			}
			want := r.take("a", protocol.TurnOfCommand, "root@a", "")
			r.node.StepOfServices(t.Context(), action, had)
			if got, _ := r.observe(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if a, _ := r.fleet.Get().Record("a"); a.Node.Cordon != want.Cordon() {
				t.Errorf("got the cordon %+v", a.Node.Cordon)
			}
		})
	}
}

func TestNode_PreReboot(t *testing.T) {
	refused := func(t *testing.T, r *rig, agent, want string) {
		t.Helper()
		_, ok := errors.AsType[*Refused](r.node.PreReboot(t.Context(), agent))
		if err := r.node.PreReboot(t.Context(), agent); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	r := newRig(t)
	r.take("a", protocol.TurnOfAgent, "agent zincati", "now")
	r.present("a", false)
	if err := r.node.PreReboot(t.Context(), "zincati"); err != nil {
		t.Errorf("it is out of service: got %v", err)
	}
	refused(t, r, "another", `node "a" has the turn`)
	if err := r.node.SteadyState(t.Context(), "another"); err != nil {
		t.Error(err)
	}
	r.wantWork(protocol.TurnWorkUnderWay) // it is not the other agent's
	if err := r.node.SteadyState(t.Context(), "zincati"); err != nil {
		t.Error(err)
	}
	r.wantWork(protocol.TurnWorkDone)
	refused(t, r, "zincati", "has to serve again first")
}

// People end the turn of an agent while it drains: the agent may not reboot, since another node may have the turn.
func TestNode_PreReboot_ended(t *testing.T) {
	r := newRig(t)
	r.take("a", protocol.TurnOfAgent, "agent zincati", "now")
	r.present("a", false)
	r.node.cfg.Published = func() (bool, <-chan struct{}) { // it is asked in the drain
		if _, err := fleet.ForceTurnEnd(t.Context(), r.client, "a"); err != nil && !errors.Is(err, fleet.ErrNoTurn) {
			t.Error(err)
		}
		return false, nil
	}
	err := r.node.PreReboot(t.Context(), "zincati")
	if _, refused := errors.AsType[*Refused](err); !refused || !strings.Contains(err.Error(), "has just ended") {
		t.Errorf("got %v, want that it is refused", err)
	}
}

// The drain begins when clients can no longer use the node, however long it has had its turn.
func TestNode_awaitOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := event.New(protocol.Fleet{})
		n := newNode(f, false)
		ready := func(ready bool) {
			f.Set(protocol.Fleet{Revision: 1, Records: []*protocol.Record{{ID: "a", Presence: protocol.Presence{Ready: ready}}}})
			synctest.Wait()
		}
		ready(true)
		var ended atomic.Bool
		go func() {
			if err := n.awaitOut(t.Context(), func() error { return nil }); err != nil {
				t.Error(err)
			}
			ended.Store(true)
		}()
		for range 2 {
			<-time.After(time.Hour)
			ready(false)
			<-time.After(nodeservices.TurnDrain - time.Millisecond)
			ready(false) // a change of something else
			if ended.Load() {
				t.Fatal("the machine may reboot while clients are leaving")
			}
			ready(true)
		}
		ready(false)
		<-time.After(nodeservices.TurnDrain)
		synctest.Wait()
		if !ended.Load() {
			t.Error("the machine may not reboot after the drain")
		}
	})
}

// A machine may reboot once clients do not use its node any more.
func TestNode_Out(t *testing.T) {
	for name, tc := range map[string]struct {
		presence  protocol.Presence
		published bool
		want      bool
	}{
		"closed":                   {protocol.Presence{}, false, true},
		"open":                     {protocol.Presence{Ready: true}, false, false},
		"it leads":                 {protocol.Presence{Election: protocol.Leading}, false, false},
		"its address is published": {protocol.Presence{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(event.New(protocol.Fleet{}), tc.published)
			f := protocol.Fleet{Revision: 1, Records: []*protocol.Record{{ID: "a", Presence: tc.presence}}}
			if got, changed := n.Out(f); got != tc.want || changed == nil {
				t.Errorf("got %v", got)
			}
			if got, _ := n.Out(protocol.Fleet{Revision: 1}); got {
				t.Error("a node without a record is no node that is out")
			}
		})
	}
}

func TestNode_Alone(t *testing.T) {
	n := newNode(event.New(protocol.Fleet{}), false)
	record := func(id protocol.NodeID, controller bool) *protocol.Record {
		return &protocol.Record{ID: id, Node: protocol.Node{ID: id, Roles: protocol.Roles{Controller: controller}}}
	}
	for name, tc := range map[string]struct {
		fleet protocol.Fleet
		want  bool
	}{
		"nothing was read":   {protocol.Fleet{}, false},
		"itself":             {protocol.Fleet{Revision: 1, Records: []*protocol.Record{record("a", true)}}, true},
		"another controller": {protocol.Fleet{Revision: 1, Records: []*protocol.Record{record("a", true), record("b", true)}}, false},
		"a worker":           {protocol.Fleet{Revision: 1, Records: []*protocol.Record{record("a", true), record("b", false)}}, true},
	} {
		if got := n.Alone(tc.fleet); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Only this node's own member counts.
func TestNode_votes(t *testing.T) {
	n := newNode(event.New(protocol.Fleet{}), false)
	for name, tc := range map[string]struct {
		voters []protocol.Voter
		want   bool
	}{
		"no member":        {nil, true},
		"it answers":       {[]protocol.Voter{{Name: "a", Healthy: true}}, true},
		"it is silent":     {[]protocol.Voter{{Name: "b", Healthy: true}, {Name: "a"}}, false},
		"another is":       {[]protocol.Voter{{Name: "b"}, {Name: "a", Healthy: true}}, true},
		"another's silent": {[]protocol.Voter{{Name: "b"}}, true},
	} {
		n.cfg.Voters = func() ([]protocol.Voter, <-chan struct{}) { return tc.voters, nil }
		if got := n.votes(); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

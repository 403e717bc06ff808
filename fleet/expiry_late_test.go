package fleet

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A registration whose answer came so late that leaders may ignore the record by
// then is not published: the gate would open on it.
func TestRegistrar_answeredTooLate(t *testing.T) {
	const expireAfter = time.Minute
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r := NewRegistrar(RegistrarConfig{
		Client: client, Local: event.New(protocol.Local{ID: "a", ExpireAfter: expireAfter}), Presence: event.New(clientv3.LeaseID(1)),
		Fleet: event.New(protocol.Fleet{}), Store: event.New(StoreKey{}), Log: slog.New(slog.DiscardHandler),
	})
	written := protocol.Registration{Matches: true, Controller: true, Revision: 7}
	r.confirm(r.clock.now() - expireAfter/2) // when the request was sent
	if err := r.publish(written); !errors.Is(err, errLate) || r.registration.Get() != (protocol.Registration{}) {
		t.Errorf("half of fence_after after the request was sent: got %v and %+v, want errLate and no registration", err, r.registration.Get())
	}
	r.confirm(r.clock.now())
	if err := r.publish(written); err != nil || r.registration.Get() != written {
		t.Errorf("at once: got %v and %+v, want the registration", err, r.registration.Get())
	}
}

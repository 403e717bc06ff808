package status

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/internal/semver"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "/lockstep/"

var keys = keyspace.Under(prefix)

func rel(t *testing.T, s string) protocol.Release {
	t.Helper()
	r, err := semver.ParseRelease(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// world is a gate of release 1.1.0 and M 1.0.0 on a real etcd.
type world struct {
	*testing.T
	server       *etcdtest.Server
	proxy        *etcdtest.Proxy
	raw          *clientv3.Client
	client       *etcd.Client
	store        *Store
	gate         *Gate
	registration *event.Value[protocol.Registration]
	override     *event.Value[protocol.Override]
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWithLog(t, slog.New(slog.DiscardHandler))
}

// newWorldWithLog is newWorld with a log for the gate.
func newWorldWithLog(t *testing.T, log *slog.Logger) *world {
	t.Helper()
	w := &world{T: t, server: etcdtest.New(t), registration: event.New(protocol.Registration{}), override: event.New(protocol.Override{})}
	w.raw = w.server.Client(t)
	w.proxy = etcdtest.NewProxy(t, w.server.Addr())
	var err error
	w.client, err = etcd.NewClient(etcd.Config{Endpoints: []string{"http://" + w.proxy.Addr()}, Prefix: prefix, RequestTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.store = NewStore(w.client)
	w.gate = NewGate(GateConfig{
		Trace: trace.ForTest(t),
		Store: w.store, Registration: w.registration, Override: w.override, Contact: w.client.Contact(), Log: log,
		Local: event.New(protocol.Local{
			ID: "me", Version: protocol.Version{Release: rel(t, "1.1.0")},
			Constraints: protocol.Constraints{MinReconciler: rel(t, "1.0.0")},
		}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- w.store.Run(ctx) }()
	go func() { ended <- w.gate.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("worker ended: %v", err)
			}
		}
		if err := w.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// put writes the status as people would and returns the revision.
func (w *world) put(version, minimum string) int64 {
	w.Helper()
	value, err := Encode(protocol.Status{
		State: protocol.Done, Version: protocol.Version{Release: rel(w.T, version)}, MinCompatible: rel(w.T, minimum),
	}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return w.putBytes(value)
}

func (w *world) putBytes(value []byte) int64 {
	w.Helper()
	resp, err := w.raw.Put(w.Context(), keys.Status(), string(value))
	if err != nil {
		w.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *world) remove() {
	w.Helper()
	if _, err := w.raw.Delete(w.Context(), keys.Status()); err != nil {
		w.Fatal(err)
	}
}

// register confirms the registration at the store's present revision.
func (w *world) register() {
	w.Helper()
	resp, err := w.raw.Put(w.Context(), keys.Node("me"), "")
	if err != nil {
		w.Fatal(err)
	}
	w.registration.Set(protocol.Registration{Matches: true, Controller: true, Revision: resp.Header.Revision, Rewinds: w.client.Rewound().Get()})
}

func (w *world) await(want protocol.Reason) Verdict {
	w.Helper()
	return w.awaitVerdict(string(want), func(v Verdict) bool { return v.Reason == want })
}

func (w *world) awaitVerdict(what string, ok func(Verdict) bool) Verdict {
	w.Helper()
	deadline := time.After(time.Minute)
	for {
		v, changed := w.gate.Verdict().Load()
		if ok(v) {
			return v
		}
		select {
		case <-changed:
		case <-deadline:
			w.Fatalf("the verdict did not become %s; last: %+v", what, v)
		}
	}
}

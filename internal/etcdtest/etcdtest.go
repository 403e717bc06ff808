// Package etcdtest gives tests and local launchers a real etcd, which runs in this
// process on loopback, and a proxy that cuts connections to it. It is for tests
// only: nothing that ships imports it.
//
// In a test:
//
//	etcd := etcdtest.New(t)      // stops when the test ends
//	client := etcd.Client(t)     // closed when the test ends
//
// A client that can be cut off, silently or with a reset:
//
//	proxy := etcdtest.NewProxy(t, etcd.Addr())
//	client := etcdtest.Dial(t, proxy.Addr())
//	proxy.Cut(etcdtest.Blackhole)
//	proxy.Restore()
//
// LoseEvents makes the watches of a server lose events. An Outlet cuts a process off from single other processes that it knows by name.
//
// A program calls Start and Close. Stop ends an etcd, and Restart starts it again on
// the same address with the same data.
//
// The server's goroutines run from Start or Restart until Stop or Close, which wait for them.
// The goroutines of a Proxy or an Outlet run from its start until its Close. An embedded etcd
// uses the network and the real clock, so it cannot run in a synctest bubble.
package etcdtest

import (
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// New starts an etcd that stops when the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	return startFor(t, Config{Dir: t.TempDir()})
}

// Replace stops s and starts another etcd at its address, which stops when the test
// ends. Without a Dir in cfg, it is empty.
func (s *Server) Replace(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Addr = s.Addr()
	s.Stop()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	return startFor(t, cfg)
}

func startFor(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Client returns a client of s that is closed when the test ends.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return Dial(t, s.Endpoints()...)
}

// Dial returns a client that is closed when the test ends. It does not wait for a
// connection: if no server answers, the first request fails.
func Dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatalf("dial etcd: %v", err)
	}
	t.Cleanup(func() {
		// Close returns the error of the client's context, which is intended.
		_ = c.Close()
	})
	return c
}

// Fill raises the alarm of a full database on the first member. Then etcd refuses
// writes and goes on to extend leases, until the function that it returns is called.
func Fill(t testing.TB, client *clientv3.Client) (empty func()) {
	t.Helper()
	members, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alarm := func(action etcdserverpb.AlarmRequest_AlarmAction) {
		t.Helper()
		_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{
			Action: action, MemberID: members.Members[0].ID, Alarm: etcdserverpb.AlarmType_NOSPACE,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	alarm(etcdserverpb.AlarmRequest_ACTIVATE)
	return func() { t.Helper(); alarm(etcdserverpb.AlarmRequest_DEACTIVATE) }
}

// NewProxy starts a proxy to target that is closed when the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

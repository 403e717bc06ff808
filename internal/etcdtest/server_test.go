package etcdtest

import (
	"context"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// patience is how long a test waits for something that must happen.
const patience = 15 * time.Second

func TestServer(t *testing.T) {
	t.Run("serves, and grants leases of one second", func(t *testing.T) {
		client := New(t).Client(t)
		mustPut(t, client, "k", "v")
		wantValue(t, client, "k", "v")
		lease, err := client.Grant(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if lease.TTL != 1 {
			t.Errorf("got a lease of %d s, want 1", lease.TTL)
		}
	})
	t.Run("keeps data and address across Stop and Restart", func(t *testing.T) {
		s := New(t)
		client := s.Client(t)
		mustPut(t, client, "k", "v")
		s.Stop()
		wantUnreachable(t, client)
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		wantValue(t, client, "k", "v")
	})
	t.Run("Stop does not wait for open watches", func(t *testing.T) {
		s := New(t)
		watch := s.Client(t).Watch(t.Context(), "k", clientv3.WithCreatedNotify())
		<-watch
		// A graceful stop would take the server's request timeout.
		grace := s.etcd.Server.Cfg.ReqTimeout()
		begin := time.Now()
		s.Stop()
		if took := time.Since(begin); took >= grace {
			t.Errorf("Stop took %s, want less than %s", took, grace)
		}
	})
	t.Run("Close removes only a directory of its own", func(t *testing.T) {
		own := mustStart(t, Config{})
		given := mustStart(t, Config{Dir: t.TempDir()})
		for _, s := range []*Server{own, given} {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(own.cfg.Dir); !os.IsNotExist(err) {
			t.Errorf("stat of own directory: got %v, want that it was removed", err)
		}
		if _, err := os.Stat(given.cfg.Dir); err != nil {
			t.Errorf("stat of given directory: got %v, want that it exists", err)
		}
	})
	t.Run("an address in use is an error", func(t *testing.T) {
		taken := New(t).Addr()
		s, err := Start(Config{Addr: taken, Dir: t.TempDir()})
		if err == nil {
			t.Errorf("got no error, want one")
			t.Error(s.Close())
		}
	})
}

func mustStart(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func mustPut(t *testing.T, client *clientv3.Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := client.Put(ctx, key, value); err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
}

func wantValue(t *testing.T, client *clientv3.Client, key, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := client.Get(ctx, key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != want {
		t.Errorf("get %q: got %v, want %q", key, resp.Kvs, want)
	}
}

// wantUnreachable makes a request that is given time enough to be answered by
// a server that can be reached.
func wantUnreachable(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := client.Get(ctx, "k"); err == nil {
		t.Error("a request was answered, want that it is not")
	}
}

package etcdtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestProxy(t *testing.T) {
	etcd := New(t)
	direct := etcd.Client(t)

	t.Run("passes requests and watches on", func(t *testing.T) {
		client := Dial(t, NewProxy(t, etcd.Addr()).Addr())
		watch := client.Watch(t.Context(), "passes", clientv3.WithCreatedNotify())
		<-watch
		mustPut(t, client, "passes", "v")
		if resp := <-watch; len(resp.Events) != 1 {
			t.Errorf("got events %v, want one", resp.Events)
		}
	})
	for name, cut := range map[string]Cut{"Blackhole": Blackhole, "Reset": Reset} {
		t.Run(name+" cuts off until Restore", func(t *testing.T) {
			p := NewProxy(t, etcd.Addr())
			client := Dial(t, p.Addr())
			mustPut(t, client, "k", name)
			p.Cut(cut)
			wantUnreachable(t, client)
			p.Restore()
			wantValue(t, client, "k", name)
		})
	}
	t.Run("BlackholeRequests lets no request take effect", func(t *testing.T) {
		putUnanswered(t, NewProxy(t, etcd.Addr()), "held")
		wantMissing(t, direct, "held")
	})
	t.Run("BlackholeResponses lets requests take effect", func(t *testing.T) {
		p := NewProxy(t, etcd.Addr())
		client := Dial(t, p.Addr())
		mustPut(t, client, "connected", "v")
		p.Cut(BlackholeResponses)
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan error, 1)
		go func() {
			_, err := client.Put(ctx, "lost", "v")
			answered <- err
		}()
		awaitKey(t, direct, "lost")
		cancel()
		if err := <-answered; err == nil {
			t.Error("put was answered, want that it is not")
		}
	})
}

func TestProxy_late(t *testing.T) {
	p := NewProxy(t, listenEcho(t))
	for name, cut := range map[string]Cut{
		"requests and answers": Blackhole, "requests": BlackholeRequests, "answers": BlackholeResponses,
	} {
		t.Run(name+" arrive after Restore", func(t *testing.T) {
			conn := mustDial(t, p.Addr())
			wantEcho(t, conn, "before")
			p.Cut(cut)
			if _, err := conn.Write([]byte("late")); err != nil {
				t.Fatal(err)
			}
			if got, err := readString(conn, 4, 200*time.Millisecond); err == nil {
				t.Errorf("got %q through the cut, want nothing", got)
			}
			p.Restore()
			if got, err := readString(conn, 4, patience); got != "late" {
				t.Errorf("got %q (%v) after Restore, want %q", got, err, "late")
			}
		})
	}
}

func TestProxy_Delay(t *testing.T) {
	p := NewProxy(t, listenEcho(t))
	conn := mustDial(t, p.Addr())
	wantEcho(t, conn, "fast")
	p.Delay(time.Hour)
	if _, err := conn.Write([]byte("slow")); err != nil {
		t.Fatal(err)
	}
	if got, err := readString(conn, 4, 200*time.Millisecond); err == nil {
		t.Errorf("got %q at once, want it to be held back", got)
	}
	p.Restore()
	wantEcho(t, mustDial(t, p.Addr()), "fast again")
	p.Delay(time.Millisecond)
	wantEcho(t, mustDial(t, p.Addr()), "late")
}

func TestProxy_reset(t *testing.T) {
	p := NewProxy(t, listenEcho(t))
	conn := mustDial(t, p.Addr())
	wantEcho(t, conn, "before")
	p.Cut(Reset)
	if _, err := readString(conn, 1, patience); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read on an idle connection: got %v, want a reset", err)
	}
}

func TestProxy_Close(t *testing.T) {
	addr := listenEcho(t)
	before := goleak.IgnoreCurrent()
	for _, cut := range []Cut{open, Blackhole, BlackholeRequests, BlackholeResponses, Reset} {
		p, err := StartProxy(addr)
		if err != nil {
			t.Fatal(err)
		}
		conn := mustDial(t, p.Addr())
		wantEcho(t, conn, "before")
		p.Cut(cut)
		p.Close()
		p.Close()
		if _, err := readString(conn, 1, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read after Close: got %v, want that the connection has ended", err)
		}
	}
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/lockstep-dev/lockstep/internal/etcdtest.echo"))
}

// listenEcho returns the address of a server that sends back what it gets.
func listenEcho(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { echo(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

func echo(conn net.Conn) {
	_, _ = io.Copy(conn, conn)
	_ = conn.Close()
}

func mustDial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func wantEcho(t *testing.T, conn net.Conn, s string) {
	t.Helper()
	if _, err := conn.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if got, err := readString(conn, len(s), patience); got != s {
		t.Fatalf("got %q (%v), want %q", got, err, s)
	}
}

func readString(conn net.Conn, n int, within time.Duration) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	buf := make([]byte, n)
	n, err := io.ReadFull(conn, buf)
	return string(buf[:n]), err
}

// putUnanswered sends a put through p while requests do not pass.
func putUnanswered(t *testing.T, p *Proxy, key string) {
	t.Helper()
	client := Dial(t, p.Addr())
	mustPut(t, client, "connected", "v")
	p.Cut(BlackholeRequests)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := client.Put(ctx, key, "v"); err == nil {
		t.Fatalf("put %q was answered, want that it is not", key)
	}
}

// awaitKey returns when the key exists.
func awaitKey(t *testing.T, client *clientv3.Client, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range client.Watch(ctx, key, clientv3.WithRev(1)) {
		return // its first event is the put
	}
	t.Fatalf("key %q does not exist after %s", key, patience)
}

func wantMissing(t *testing.T, client *clientv3.Client, key string) {
	t.Helper()
	resp, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Count != 0 {
		t.Errorf("key %q exists, want that it does not", key)
	}
}

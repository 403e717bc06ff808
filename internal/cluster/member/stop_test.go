package member_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// A member that stops asks its clients to go elsewhere, waits for their requests, and then hands over the lead: no write
// fails because there is no leader, and a watch does not hold up the stop.
func TestSupervisor_farewell(t *testing.T) {
	r := newRig(t)
	n, second := r.node(t, "a"), r.node(t, "b")
	for _, spec := range []*member.Spec{&n.spec, &second.spec} {
		spec.Heartbeat, spec.Election = 100*time.Millisecond, time.Second
	}
	m, _ := readyWithKey(t, n)
	joined := joinSecond(t, n, second)
	_ = client(t, n).Watch(t.Context(), "key") // it does not end by itself
	conn := dialH2(t, n)
	for range 2 {
		_ = dialH2(t, n) // says nothing more: the machine of the client may have failed
	}
	const settings, goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", 7
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings); err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(conn); err != nil { // etcd serves it now
		t.Fatal(err)
	}
	writing := client(t, n)
	var written, begun sync.WaitGroup
	stopped := make(chan struct{})
	for range 4 {
		begun.Add(1)
		written.Go(func() {
			for first := true; ; first = false {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := writing.Put(ctx, "k", "v")
				cancel()
				if first {
					begun.Done()
				}
				if err != nil {
					if strings.Contains(err.Error(), "raft proposal dropped") {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	begun.Wait()
	go func() {
		defer close(stopped)
		_ = m.stop() // the end of its context
	}()
	until(t, "the other member leads", func() bool {
		status, err := joined.Status(t.Context(), second.spec.ClientURL)
		return err == nil && status.Leader == status.Header.GetMemberId()
	})
	for {
		kind, err := readFrame(conn)
		if err != nil {
			t.Fatalf("the connection ended without a GOAWAY: %v", err)
		}
		if kind == goAway {
			break
		}
	}
	for {
		if _, err := readFrame(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection stays open")
		} else if err != nil {
			break
		}
	}
	<-stopped
	written.Wait()
}

// joinSecond starts a second member of the cluster of the first, as a voter, and returns a client of it.
func joinSecond(t *testing.T, first, second *node) *clientv3.Client {
	t.Helper()
	c := client(t, first)
	var id uint64
	until(t, "the member is added", func() bool {
		added, err := c.MemberAddAsLearner(t.Context(), []string{second.spec.PeerURL})
		if err == nil {
			id = added.Member.ID
		}
		return err == nil
	})
	second.spec.InitialCluster += "," + first.spec.InitialCluster
	second.spec.Existing, second.spec.Token = true, first.spec.Token
	second.start(t).awaitReady(t)
	until(t, "the member is a voter", func() bool {
		_, err := c.MemberPromote(t.Context(), id)
		return err == nil
	})
	return client(t, second)
}

// dialH2 returns a connection of a valid client that chose HTTP/2, after its handshake.
func dialH2(t *testing.T, n *node) *tls.Conn {
	t.Helper()
	config, addr := clientPort(t, n)
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(limit))
	return conn
}

// readFrame returns the type of the next frame of HTTP/2.
func readFrame(r io.Reader) (kind byte, err error) {
	const size = 9
	var header [size]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, err
	}
	_, err = io.CopyN(io.Discard, r, int64(header[0])<<16|int64(header[1])<<8|int64(header[2]))
	return header[3], err
}

// clientPort returns how a valid client reaches the client port of a node, and its address.
func clientPort(t *testing.T, n *node) (config *tls.Config, addr string) {
	t.Helper()
	config, err := pki.ClientTLS(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(n.spec.ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	return config, at.Host
}

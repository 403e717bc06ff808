package member_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// The member answers gRPC and HTTP, to clients that prefer HTTP/2 too, and only with a certificate.
func TestSupervisor_ports(t *testing.T) {
	n := newRig(t).node(t, "a")
	p := n.start(t)
	p.awaitReady(t)
	if err := put(t, client(t, n), "k"); err != nil {
		t.Error(err)
	}
	config, err := pki.ClientTLS(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"client": n.spec.ClientURL + "/health", "metrics": n.spec.ClientURL + "/metrics", "peer": n.spec.PeerURL + "/version"} {
		ask := func(h2, shown bool) error {
			own := config.Clone()
			if !shown {
				own.Certificates = nil
			}
			asking := &http.Client{Timeout: limit, Transport: &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: h2, DisableKeepAlives: true}}
			response, err := asking.Get(url)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", name, response.Status)
			}
			return nil
		}
		for _, h2 := range []bool{false, true} {
			if err := ask(h2, true); err != nil {
				t.Errorf("%s, HTTP/2 %t: %v", name, h2, err)
			}
			if err := ask(h2, false); err == nil {
				t.Errorf("%s, HTTP/2 %t: a client without a certificate was let in", name, h2)
			}
		}
	}
	// It listens again after it was killed.
	running, err := os.FindProcess(p.State().Get().PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Kill(); err != nil {
		t.Fatal(err)
	}
	p.await(t, "it is ready again", func(s member.State) bool { return s.Restarts > 0 && s.Ready })
	if err := put(t, client(t, n), "k"); err != nil {
		t.Error(err)
	}
}

// A member that is not ready accepts no clients, as etcd does: it would keep their connections after they gave up.
func TestSupervisor_notReady(t *testing.T) {
	r := newRig(t)
	n, second := r.node(t, "a"), r.node(t, "b")
	n.spec.InitialCluster += "," + second.spec.InitialCluster
	second.spec.InitialCluster, second.spec.Token = n.spec.InitialCluster, n.spec.Token
	p := n.start(t)
	p.await(t, "it is started", func(s member.State) bool { return s.MemberID != 0 })
	config, addr := clientPort(t, n)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const briefly = 300 * time.Millisecond // much longer than a handshake
	_ = conn.SetDeadline(time.Now().Add(briefly))
	config.ServerName = loopback
	if err := tls.Client(conn, config).Handshake(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want no answer", err)
	}
	// Peers are answered, and clients that connected meanwhile are served once it is ready.
	early := client(t, n)
	early.ActiveConnection().Connect()
	second.start(t).awaitReady(t)
	if err := put(t, early, "k"); err != nil {
		t.Error(err)
	}
}

package member_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// The member serves in a directory whose path is longer than that of a socket may be, behind sockets of which no other
// user knows. It answers gRPC and HTTP, to clients that prefer HTTP/2 too, and only with a certificate.
func TestSupervisor_ports(t *testing.T) {
	n := newRig(t).node(t, "a")
	n.spec.Dir = filepath.Join(n.dir, strings.Repeat("long", 40), "etcd")
	p := n.start(t)
	p.awaitReady(t)
	sockets := filepath.Join(n.spec.Dir, "sockets")
	if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the sockets: %v, %v", info, err)
	}
	if err := put(t, client(t, n), "k"); err != nil {
		t.Error(err)
	}
	config, err := pki.ClientTLS(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"client": n.spec.ClientURL + "/health", "peer": n.spec.PeerURL + "/version"} {
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

package soak

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/attack"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// This file starts strangers, who attack the HTTP API, the join port and the ports of etcd of one
// node after another. The soak's own requests need a client certificate then: a client without one shares
// its limits with all strangers.

const (
	strangerAddresses = 5000
	// One attack lasts for so long, and then there is none: the machine is shared with all nodes.
	attackTime, attackPause = 500 * time.Millisecond, time.Second
	joinPort, peerPort      = "8087", "8089"
	strangerCount           = "strangers: "
)

// prepareStrangers makes addresses of strangers, and a certificate for each node.
func (w *world) prepareStrangers() (err error) {
	if err := attack.Prepare(); err != nil {
		return err
	}
	if w.stranger, err = attack.NewTarget(strangerAddresses); err != nil {
		return err
	}
	for _, n := range w.nodes {
		dir := filepath.Join(w.dir, "tls-"+n.slot)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		n.secure = &secure{}
		if n.secure.cert, n.secure.key, err = attack.ServerFiles(dir, n.machine.Address.String()); err != nil {
			return err
		}
		if n.secure.pair, err = tls.LoadX509KeyPair(n.secure.cert, n.secure.key); err != nil {
			return err
		}
	}
	return nil
}

// secure is a certificate for a sidecar, which is its own CA, and the CA of its clients.
type secure struct {
	cert, key string // files
	pair      tls.Certificate
}

// apply lets a sidecar answer the soak over HTTPS.
func (s *secure) apply(cfg *cluster.SidecarConfig) {
	certificates := []tls.Certificate{s.pair}
	cfg.Client = &tls.Config{Certificates: certificates, InsecureSkipVerify: true} //nolint:gosec // a duplicate has another address
	cfg.Args = append(cfg.Args, "--tls-cert-file="+s.cert, "--tls-private-key-file="+s.key, "--client-ca-file="+s.cert)
}

// attack attacks one node after another, in one way after another, until ctx ends.
func (w *world) attack(ctx context.Context) {
	all := attack.All()
	for i := 0; pause(ctx, attackPause); i++ {
		n, a := w.nodes[i%len(w.nodes)], all[i/len(w.nodes)%len(all)]
		api, join := w.stranger, w.stranger
		api.HTTP, api.TLS = net.JoinHostPort(n.machine.Address.String(), sidecarPort), true
		join.Join = net.JoinHostPort(n.machine.Address.String(), joinPort)
		for _, port := range []string{peerPort, clientPort} {
			join.Etcd = append(join.Etcd, net.JoinHostPort(n.machine.Address.String(), port))
		}
		for _, target := range []attack.Target{api, join} {
			if !a.Fits(target) {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, attackTime)
			if n := a.Run(limited, target); n > 0 {
				w.addCounts(strangerCount+a.Name, n)
			}
			cancel()
		}
	}
}

// attacks counts what came through of all attacks.
func (r Result) attacks() (n int) {
	for kind, count := range r.Done {
		if strings.HasPrefix(kind, strangerCount) {
			n += count
		}
	}
	return n
}

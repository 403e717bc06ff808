package app

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"net"
	"os"

	"github.com/lockstep-dev/lockstep/internal/machine"
	"github.com/lockstep-dev/lockstep/protocol"
)

// identity distinguishes this run of this program on this machine from all others.
type identity struct {
	node      protocol.NodeID
	instance  string // identifies this run
	machineID string // identifies the machine; empty: unknown
	bootID    string // identifies the machine's boot
	host      string // the machine's name, for people; empty: unknown
}

func newIdentity(node protocol.NodeID) identity {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never returns an error
	instance := hex.EncodeToString(random[:])
	host, _ := os.Hostname() // only shown to people
	return identity{node: node, instance: instance, machineID: machine.ID(), bootID: cmp.Or(machine.BootID(), instance), host: host}
}

// address returns the URL at which other machines probably reach the listener; empty: unknown.
func address(cfg Config, l net.Listener) string {
	if cfg.AdvertiseURL != "" || l == nil {
		return cfg.AdvertiseURL
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	ip := net.ParseIP(host)
	if err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return ""
	}
	return scheme(cfg) + "://" + net.JoinHostPort(host, port)
}

func scheme(cfg Config) string {
	if cfg.TLS.CertFile != "" {
		return "https"
	}
	return "http"
}

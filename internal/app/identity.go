package app

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// identity tells this run of this program on this machine from all others.
type identity struct {
	node      protocol.NodeID
	instance  string // of this run
	machineID string // of the machine; empty: unknown
	bootID    string // of the machine's boot
}

const (
	machineIDFile = "/etc/machine-id"
	bootIDFile    = "/proc/sys/kernel/random/boot_id"
)

func newIdentity(opts Options) (identity, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never returns an error
	id := identity{
		node:      protocol.NodeID(opts.NodeID),
		instance:  hex.EncodeToString(random[:]),
		machineID: firstLine(machineIDFile),
		bootID:    firstLine(bootIDFile),
	}
	if id.bootID == "" {
		id.bootID = id.instance
	}
	if id.machineID == "" {
		// As in a container: its boot tells the machine as well.
		id.machineID = firstLine(bootIDFile)
	}
	if id.node != "" {
		return id, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return identity{}, fmt.Errorf("host name, for lack of --node-id: %w", err)
	}
	host = strings.ToLower(host)
	if !isSubdomain(host) {
		return identity{}, fmt.Errorf("the host name %q is not a DNS subdomain: set --node-id", host)
	}
	id.node = protocol.NodeID(host)
	return id, nil
}

// firstLine returns the first line of a file, and the empty string where it
// cannot be read.
func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}

// address returns the URL at which others reach the listener, as far as that
// can be known.
func address(opts Options, l net.Listener) string {
	if opts.AdvertiseURL != "" {
		return opts.AdvertiseURL
	}
	scheme := "http"
	if opts.TLSCertFile != "" {
		scheme = "https"
	}
	host, _, err := net.SplitHostPort(opts.Listen)
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
	return scheme + "://" + net.JoinHostPort(host, port)
}

package etcdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddr chooses from these ports. They are below the ones that the kernel uses
// for outgoing connections. On one of those, a client that dials a stopped server
// can connect to itself, and a server can find its port in use when it starts again.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreeAddr returns a host:port on loopback that is not in use. Another process can
// take it before the caller listens there.
func FreeAddr() (string, error) {
	var errs []error
	for range 20 {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, l.Close()
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs...))
}

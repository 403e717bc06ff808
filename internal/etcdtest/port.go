package etcdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// FreeAddr chooses from these ports. They are below the ones that the kernel uses
// for outgoing connections. On one of those, a client that dials a stopped server
// can connect to itself, and a server can find its port in use when it starts again.
const (
	firstPort = 20000
	lastPort  = 32000
)

// newestPort is the one that FreeAddr chose last. Each process begins somewhere else.
var newestPort atomic.Int64

func init() { newestPort.Store(rand.Int64N(lastPort - firstPort)) }

// FreeAddr returns a host:port on loopback that is not in use. It returns no port again
// before all others: the caller may listen there later. Another process can take it before
// that.
func FreeAddr() (string, error) {
	var errs []error
	for range 20 {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+newestPort.Add(1)%(lastPort-firstPort))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
			AwaitFree(addr)
			return addr, err
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs...))
}

// AwaitFree waits until nothing listens at an address any more. A child that another
// goroutine starts has a copy of each listener until it executes its program, so a port can be
// in use for a moment although its listener is closed. Call this between closing a listener
// and listening there again.
func AwaitFree(addr string) {
	// Not longer, in case another program listens there now.
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return
		case err == nil:
			_ = conn.Close() // it was not used
		}
		runtime.Gosched()
	}
}

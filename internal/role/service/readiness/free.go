package readiness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

const (
	// freePatience is how long a program that is ending may still listen: for example, the group of an
	// instance that was just killed.
	freePatience = time.Second
	freePause    = 50 * time.Millisecond
)

// AwaitFree returns when no program listens where a service is about to be probed. Otherwise
// another program, such as a kube-apiserver of the previous release, would answer the probe. The
// error names the address and, if the sidecar may see it, the process. For a service that is not
// probed over TCP (c is nil, or Exec) it returns at once.
//
// Only an open connection, or one that is not answered in time, counts as a program. Other errors
// do not: the address may be missing until the service adds it.
func AwaitFree(ctx context.Context, name string, c *Config) error {
	address := c.Address()
	if address == "" {
		return nil
	}
	for began := time.Now(); ; {
		err := dial(ctx, address, c.Timeout)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case time.Since(began) < freePatience:
			backoff.Sleep(ctx, freePause)
			continue
		case err != nil:
			return fmt.Errorf("it is unknown whether a program listens at %s, which did not answer within %s before %q was started: "+
				"see \"ss -ltnp\", and stop that program", address, c.Timeout, name)
		}
		return fmt.Errorf("another program answers at %s before %q was started: %s", address, name, listener(address))
	}
}

// Address is the address that the probe connects to; empty: none.
func (c *Config) Address() string {
	switch {
	case c == nil:
		return ""
	case c.TCPSocket != nil:
		return c.TCPSocket.Address
	case c.HTTPGet == nil:
		return ""
	}
	u, err := url.Parse(c.HTTPGet.URL)
	if err != nil { // a service with such a URL is not loaded
		return ""
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // net.Dial knows its number
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// dial connects to an address. It returns os.ErrDeadlineExceeded if nothing answered in time.
func dial(ctx context.Context, address string, timeout time.Duration) error {
	err := connect(ctx, address, timeout)
	netErr, isNet := errors.AsType[net.Error](err)
	if _, isName := errors.AsType[*net.DNSError](err); isNet && !isName && netErr.Timeout() {
		return os.ErrDeadlineExceeded
	}
	return err
}

// connect opens a connection, and closes it. Timeout 0: only ctx ends it.
func connect(ctx context.Context, address string, timeout time.Duration) error {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

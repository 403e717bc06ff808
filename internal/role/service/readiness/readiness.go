// Package readiness probes a service as a kubelet probes a container (docs/roles.md#readiness). It
// owns the kinds of probes, their success, and the times between them. Package service runs the
// service and acts on the results. It starts no goroutine that outlives a call.
package readiness

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Config configures the probe of a service: one of HTTPGet, Exec and TCPSocket, and the times, with
// the names and the defaults of a kubelet.
type Config struct {
	HTTPGet   *HTTPGet   `field:"httpGet"`
	Exec      *Exec      `field:"exec"`
	TCPSocket *TCPSocket `field:"tcpSocket"`

	InitialDelay time.Duration `field:"initialDelaySeconds" range:"0 86400"` // before the first probe of an instance
	Period       time.Duration `field:"periodSeconds" range:"1 86400"`       // between the starts of two probes
	Timeout      time.Duration `field:"timeoutSeconds" range:"1 86400"`      // of one probe
	// SuccessThreshold is how many probes in a row must succeed until the service is ready,
	// FailureThreshold how many must fail until it is no longer ready.
	SuccessThreshold int `field:"successThreshold" range:"1 1000"`
	FailureThreshold int `field:"failureThreshold" range:"1 1000"`
}

// The times of a kubelet.
const (
	DefaultPeriod           = 10 * time.Second
	DefaultTimeout          = time.Second
	DefaultSuccessThreshold = 1
	DefaultFailureThreshold = 3
)

// HTTPGet succeeds if the status of the answer is from 200 to 399.
type HTTPGet struct {
	URL string `field:"url" required:"" variables:""`
	// CAFile contains the CA certificates for the server's certificate, in PEM; empty: the system's
	// CAs. It is read at each probe: the service may write it.
	CAFile             string `field:"caFile" variables:""`
	InsecureSkipVerify bool   `field:"insecureSkipVerify"` // do not verify the certificate, as kubelets do
}

// Exec succeeds if the program ends with exit code 0.
type Exec struct {
	// Command is the program, as a path, and its arguments.
	Command []string `field:"command" required:"it is a list with the program, as a path, and its arguments" variables:""`
}

// TCPSocket succeeds if a connection can be opened.
type TCPSocket struct {
	Address string `field:"address" required:"" variables:""` // host:port
}

// Runner runs a program to its end, and kills it when ctx ends.
type Runner func(ctx context.Context, command []string) error

// Probe probes once. An error explains why the service is not ready.
type Probe func(ctx context.Context) error

// New returns the probe of a Config. run is for Exec.
func New(c Config, run Runner) Probe {
	probe := func(context.Context) error { return errors.New("no probe is configured") }
	switch {
	case c.HTTPGet != nil:
		probe = c.HTTPGet.probe
	case c.TCPSocket != nil:
		probe = c.TCPSocket.probe
	case c.Exec != nil:
		probe = func(ctx context.Context) error { return run(ctx, c.Exec.Command) }
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
		err := probe(ctx)
		if err != nil && errors.Is(context.Cause(ctx), errTimeout) {
			return fmt.Errorf("no answer within %s", c.Timeout)
		}
		return err
	}
}

// Refused reports whether the error of a probe proves that no program listens at the service's
// address. Other failures do not prove that.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func (t *TCPSocket) probe(ctx context.Context) error { return connect(ctx, t.Address, 0) }

var errTimeout = errors.New("timeout")

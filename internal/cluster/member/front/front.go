package front

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// The shares of a processor for clients of other machines without a certificate, at all ports of a member: less
// than 5 %. An address with a certificate gets more: each kube-apiserver behind it opens hundreds of connections at
// once when a member starts.
const (
	commonShare     = 0.02
	ownShare        = 0.0005
	ownPlaces       = 16
	identifiedShare = 0.05
	// handshakePrice includes a signature, and the certificate's files, which are read each time.
	handshakePrice = allowance.HandshakePrice + 150*time.Microsecond
)

// Handshakes that are under way are bounded: each takes memory. Connections after it are bounded by
// the file descriptors of the process, of which each takes three.
const (
	handshakeTimeout = 10 * time.Second
	mostHandshakes   = 512
	ownHandshakes    = 256 // of one address: of one kube-apiserver
	reserved         = 256
	filesEach        = 3
	reservedFiles    = 256 // for etcd
	fewest           = 64  // connections, even if file descriptors are scarce
)

// Config is that of all ports of a member.
type Config struct {
	// CAFile contains the authorities of clients, and is read once. CertFile and KeyFile are the server's, and are
	// read at each handshake.
	CAFile, CertFile, KeyFile string

	// Warn logs a message for people, with keys and values. It is called often.
	Warn func(message string, keysAndValues ...any)
}

// Front is what the ports of a member share.
type Front struct {
	warn      func(message string, keysAndValues ...any)
	reminder  rate.Sometimes // of refused clients
	allowance *allowance.Port
	config    *tls.Config
	opening   allowance.Open
	timeout   time.Duration // of a handshake
	serving   chan struct{} // as many as connections may be open
}

// New returns a front without ports.
func New(cfg Config) (*Front, error) {
	text, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	trusted, err := pki.ParseTrusted(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", cfg.CAFile, err)
	}
	own := &certificate{certFile: cfg.CertFile, keyFile: cfg.KeyFile}
	if _, err := own.load(); err != nil {
		return nil, err
	}
	f := &Front{
		timeout: handshakeTimeout, warn: cfg.Warn, reminder: rate.Sometimes{Interval: time.Minute},
		config:  serverConfig(own, pki.NewClients(trusted)),
		serving: make(chan struct{}, connections(allowance.FileLimit())),
		opening: allowance.Open{Most: mostHandshakes, PerAddress: ownHandshakes, Reserved: reserved},
	}
	f.allowance = allowance.NewPort(allowance.Config{
		Common: commonShare, Own: ownShare, Places: ownPlaces, Identified: identifiedShare,
		HeldOff: func(addresses int) {
			if addresses > 0 {
				f.warn("clients without a certificate of the cluster use more of a processor than they may, and are held off",
					"addresses", addresses)
			}
		},
	})
	return f, nil
}

// connections returns how many connections a process may serve that may open so many files.
func connections(files uint64) int {
	const most = 1 << 16
	if files >= filesEach*most+reservedFiles {
		return most
	}
	return max(fewest, (int(files)-reservedFiles)/filesEach) //nolint:gosec // below
}

// Listen opens a port. Serve must follow.
func (f *Front) Listen(address string) (*Port, error) {
	l, err := allowance.Listen(address)
	if err != nil {
		return nil, err
	}
	return &Port{front: f, listener: f.allowance.Listener(l, l), open: map[net.Conn]struct{}{}}, nil
}

// Know gives the addresses of members, each as host:port, the share of clients with a certificate: after a start in the
// middle of an attack, they are let in at once. Call it again every few minutes.
func (f *Front) Know(members []string) {
	for _, m := range members {
		if addr := allowance.AddressOf(m); addr.IsValid() {
			f.allowance.Know(addr)
		}
	}
}

// Port is one port of a member.
type Port struct {
	front    *Front
	listener net.Listener

	running sync.WaitGroup
	mu      sync.Mutex // mu guards the fields below
	closed  bool
	open    map[net.Conn]struct{} // all connections of clients
}

// Serve accepts connections until Close, and passes them to the Unix socket. A client that takes longer than patience
// to receive bytes of etcd is closed; 0: TCP decides.
func (p *Port) Serve(socket string, patience time.Duration) {
	p.running.Go(func() {
		for {
			conn, err := p.listener.Accept()
			switch {
			case err == nil:
				p.begin(conn, socket, patience)
			case errors.Is(err, net.ErrClosed):
				return
			default: // such as: too many open files
				p.front.warn("no connection can be accepted", "error", err)
				<-time.After(acceptPause)
			}
		}
	})
}

// acceptPause is the pause after a connection could not be accepted.
const acceptPause = 50 * time.Millisecond

// begin serves a connection, unless too many handshakes are under way.
func (p *Port) begin(conn net.Conn, socket string, patience time.Duration) {
	done := func() {}
	if !allowance.Local(conn) {
		client := allowance.Network(conn)
		if !p.front.opening.Enter(client) {
			p.front.allowance.Refuse(conn)
			_ = conn.Close() // the client notices it either way
			return
		}
		done = sync.OnceFunc(func() { p.front.opening.Leave(client) })
	}
	if !p.enter(conn) {
		done()
		_ = conn.Close() // the same
		return
	}
	p.running.Go(func() {
		defer p.leave(conn)
		defer done()
		client, err := p.front.handshake(conn)
		if err != nil {
			p.front.reminder.Do(func() {
				p.front.warn("a client was refused", "client", conn.RemoteAddr().String(), "error", err)
			})
			return
		}
		done()
		select {
		case p.front.serving <- struct{}{}:
			defer func() { <-p.front.serving }()
		default:
			p.front.warn("a connection is refused: too many are open", "most", cap(p.front.serving))
			return
		}
		inner, err := net.Dial("unix", socket) //nolint:noctx // it answers at once
		if err != nil {
			p.front.warn("etcd does not accept a connection", "error", err)
			return
		}
		relay(client, inner.(*net.UnixConn), patience)
	})
}

func (p *Port) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.open[conn] = struct{}{}
	return true
}

// leave closes a connection.
func (p *Port) leave(conn net.Conn) {
	p.mu.Lock()
	delete(p.open, conn)
	p.mu.Unlock()
	_ = conn.Close() // it ended
}

// handshake returns the connection of a client that showed a certificate of the cluster.
func (f *Front) handshake(conn net.Conn) (*tls.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(f.timeout)); err != nil {
		return nil, err
	}
	client := tls.Server(conn, f.config)
	if err := client.Handshake(); err != nil { //nolint:noctx // the deadline and Close end it
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	allowance.Of(conn).Identify()
	return client, conn.SetDeadline(time.Time{})
}

// Cut ends all connections, and accepts no more.
func (p *Port) Cut() {
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		_ = conn.Close() // its relay notices it
	}
	p.mu.Unlock()
	_ = p.listener.Close() // nothing depends on it
}

// Close ends all connections, and waits for them.
func (p *Port) Close() {
	p.Cut()
	p.running.Wait()
}

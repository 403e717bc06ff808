package ports

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// The shares of a processor for clients of other machines without a certificate, at all ports of a member: less than
// 4 %.
const (
	commonShare = 0.02
	ownShare    = 0.0005
	ownPlaces   = 16
	// identified addresses divide as many shares.
	identified = 20
	// handshakePrice includes a signature, and whether the certificate's files were replaced.
	handshakePrice = allowance.HandshakePrice + 150*time.Microsecond
)

// reminder is the pause between two messages of the same kind.
const reminder = time.Minute

// Config configures all ports of a member.
type Config struct {
	// CAFile contains the authorities of clients, and is read once. CertFile and KeyFile are the server's, and are read
	// again when they are replaced.
	CAFile, CertFile, KeyFile string
	// NodesFile keeps the addresses of nodes for the next start. It need not exist.
	NodesFile string
	// Warn logs a message for people, with keys and values. It is called often.
	Warn func(message string, keysAndValues ...any)
}

// Ports is what the ports of a member share.
type Ports struct {
	warn    func(message string, keysAndValues ...any)
	refused map[bool]*rate.Sometimes // reminders; true: of nodes' addresses. Strangers hide no node.
	broken  rate.Sometimes           // of connections that cannot be served
	bound   *allowance.Port
	config  *tls.Config
	queue   *queue
	nodes   *nodes
	timeout time.Duration // of a handshake

	mu      sync.Mutex // mu guards the fields below
	members []netip.Addr
}

// New returns what the ports share.
func New(cfg Config) (*Ports, error) {
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
	p := &Ports{
		warn: cfg.Warn, timeout: handshakeTimeout, broken: rate.Sometimes{Interval: reminder},
		refused: map[bool]*rate.Sometimes{true: {Interval: reminder}, false: {Interval: reminder}},
		config:  serverConfig(own, pki.NewClients(trusted)), queue: newQueue(allowance.FileLimit()),
	}
	p.bound = allowance.NewPort(allowance.Config{
		Common: commonShare, Own: ownShare, Places: ownPlaces, Identified: identified,
		HeldOff: func(addresses int) {
			if addresses > 0 {
				p.warn("clients without a certificate of the cluster use more of a processor than they may, and are held off",
					"addresses", addresses)
			}
		},
	})
	if p.nodes, err = readNodes(cfg.NodesFile, time.Now()); err != nil {
		p.warn("the addresses of nodes cannot be read: until each has connected, it is a stranger", "file", cfg.NodesFile, "error", err)
	}
	p.publish()
	return p, nil
}

// publish gives the allowance and the queue the addresses of nodes.
func (p *Ports) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Concat(p.members, p.nodes.addresses())
	p.bound.Know(all)
	p.queue.know(all)
}

// Know sets the addresses of the members, each as host:port, and keeps all nodes' addresses for the next start. Call it
// again every few minutes.
func (p *Ports) Know(members []string) {
	var all []netip.Addr
	for _, m := range members {
		if host := allowance.AddressOf(m); host.IsValid() {
			all = append(all, host)
		}
	}
	p.mu.Lock()
	p.members = all
	p.mu.Unlock()
	if err := p.nodes.write(time.Now()); err != nil {
		p.broken.Do(func() { p.warn("the addresses of nodes cannot be kept for the next start", "error", err) })
	}
	p.publish()
}

// enter notes a client of another machine that showed a certificate, until its connection is closed.
func (p *Ports) enter(addr netip.Addr, c *timedConn) {
	c.leave = func() { p.nodes.leave(addr, time.Now()) }
	if p.nodes.enter(addr, time.Now()) {
		p.publish()
	}
}

// Bounds are of one port.
type Bounds struct {
	// Handshakes is how many are under way at once from the addresses of nodes, at most.
	Handshakes int
	// Connections is how many there are, at most. Others wait in the kernel. 0: any number.
	Connections int
}

// Listen opens a port. Its connections wait in the kernel until Port.Start.
func (p *Ports) Listen(address string, most Bounds) (*Port, error) {
	return p.listen(address, most, func(l net.Listener) net.Listener { return l })
}

func (p *Ports) listen(address string, most Bounds, wrap func(net.Listener) net.Listener) (*Port, error) {
	socket, err := allowance.Listen(address)
	if err != nil {
		return nil, err
	}
	inner, begun := wrap(socket), newUnfinished(most.Handshakes)
	if most.Connections > 0 {
		inner = newLimited(inner, most.Connections, begun.makeRoom)
	}
	l := p.bound.Listener(inner, socket)
	return &Port{
		ports: p, listener: l, closed: make(chan struct{}),
		opening: map[net.Conn]struct{}{}, silent: map[*timedConn]struct{}{},
		grpc: newHanded(l.Addr()), http: newHanded(l.Addr()), begun: begun,
	}, nil
}

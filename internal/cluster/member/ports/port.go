package ports

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/allowance"
)

const (
	// handshakeTimeout includes the wait for a turn. Clients wait that long too, and a machine may be slow when hundreds
	// connect at once.
	handshakeTimeout = 20 * time.Second
	// acceptPause is the pause after a connection could not be accepted.
	acceptPause = 50 * time.Millisecond
)

// Port is one port of a member.
type Port struct {
	ports    *Ports
	listener net.Listener
	patience time.Duration
	grpc     *handed
	http     *handed
	begun    *unfinished

	running sync.WaitGroup
	closed  chan struct{}
	once    sync.Once  // of closed
	mu      sync.Mutex // mu guards the fields below
	opening map[net.Conn]struct{}
	silent  map[*timedConn]struct{} // that gRPC got, until it serves them
	deaf    bool
}

// GRPC returns the connections of clients that chose HTTP/2, as those of gRPC do.
func (p *Port) GRPC() net.Listener { return p.grpc }

// HTTP returns all others.
func (p *Port) HTTP() net.Listener { return p.http }

// Start accepts connections until Close. After its handshake, a connection ends when a read or write takes longer than
// patience; 0: any time.
func (p *Port) Start(patience time.Duration) {
	p.patience = patience
	p.running.Go(func() {
		for {
			conn, err := p.listener.Accept()
			switch {
			case err == nil:
				p.begin(conn)
			case errors.Is(err, net.ErrClosed):
				return
			default: // such as: too many open files
				p.ports.broken.Do(func() { p.ports.warn("no connection can be accepted", "error", err) })
				select {
				case <-time.After(acceptPause):
				case <-p.closed:
					return
				}
			}
		}
	})
}

// begin starts the handshake of a connection. A stranger waits in the queue first.
func (p *Port) begin(conn net.Conn) {
	stranger, addr := allowance.Of(conn), allowance.Network(conn)
	var waits *waiting
	if stranger != nil {
		if waits = p.ports.queue.enter(addr); waits == nil {
			p.ports.bound.Refuse(conn)
			_ = conn.Close() // the client notices it either way
			return
		}
	}
	if !p.enter(conn) {
		waits.leave()
		_ = conn.Close() // the port is closed
		return
	}
	var begun *handshake
	if stranger == nil {
		begun = p.begun.enter(addr, conn)
	}
	p.running.Go(func() {
		client, err := p.handshake(conn, waits)
		if begun.leave() {
			if err == nil {
				_ = client.Close() // it was closed at the end of its handshake
			}
			err = errCrowded
		}
		p.mu.Lock()
		delete(p.opening, conn)
		p.mu.Unlock()
		if err != nil {
			_ = conn.Close() // it is refused
			p.ports.refused[stranger == nil].Do(func() {
				p.ports.warn("a client was refused", "client", conn.RemoteAddr().String(), "error", err)
			})
			return
		}
		p.pass(client)
	})
}

// pass hands a connection to the server that its client chose.
func (p *Port) pass(client *tls.Conn) {
	if client.ConnectionState().NegotiatedProtocol != grpcProtocol {
		p.http.pass(client)
		return
	}
	if timed, is := client.NetConn().(*timedConn); is && !p.hush(timed) {
		_ = client.Close() // the server stops
		return
	}
	p.grpc.pass(client)
}

// hush notes that the client of a connection has said nothing to gRPC yet, unless the port is deaf.
func (p *Port) hush(timed *timedConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf {
		return false
	}
	p.silent[timed] = struct{}{}
	timed.begun = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.silent, timed)
	}
	return true
}

// handshake returns the connection of a client that showed a certificate of the cluster.
func (p *Port) handshake(conn net.Conn, waits *waiting) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.ports.timeout) //nolint:forbidigo // Close ends it
	defer cancel()
	defer waits.leave()
	if waits.await(ctx, p.closed) {
		allowance.Of(conn).Identify() // another connection showed that it is a node
	}
	timed := &timedConn{Conn: conn, left: mostHandshake, leave: func() {}, begun: func() {}}
	client := tls.Server(timed, p.ports.config)
	err := client.HandshakeContext(ctx)
	if err == nil {
		timed.bound(p.patience)
		if waits != nil {
			allowance.Of(conn).Identify()
		}
		if !allowance.Local(conn) {
			p.ports.enter(allowance.Network(conn), timed)
		}
		return client, nil
	}
	if waits != nil && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		p.ports.bound.Refuse(conn)
	}
	return nil, err
}

// enter notes a connection for Close, unless the port is closed.
func (p *Port) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
	}
	p.opening[conn] = struct{}{}
	return true
}

// Deafen accepts no more connections. It ends those to gRPC whose clients have said nothing yet: gRPC would wait
// two minutes for them before it says to the others that it stops.
func (p *Port) Deafen() {
	_ = p.listener.Close() // nothing depends on it
	p.mu.Lock()
	p.deaf = true
	var silent []net.Conn
	for timed := range p.silent {
		silent = append(silent, timed.Conn)
	}
	p.mu.Unlock()
	for _, conn := range silent {
		_ = conn.Close() // gRPC notices it
	}
}

// Close ends what is not in the hands of a server, and waits for it.
func (p *Port) Close() {
	p.Deafen()
	p.once.Do(func() { close(p.closed) })
	p.mu.Lock()
	for conn := range p.opening {
		_ = conn.Close() // its handshake notices it
	}
	p.mu.Unlock()
	_ = p.grpc.Close() // it returns nil
	_ = p.http.Close()
	p.running.Wait()
}

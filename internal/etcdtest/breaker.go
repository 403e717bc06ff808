package etcdtest

import (
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// breaker breaks all connections of a server at once, as a crash does. Without it, a
// server that is closed usually waits for its clients' streams, and ends them with a
// message.
type breaker struct {
	credentials.TransportCredentials

	mu     sync.Mutex // mu guards the fields below
	conns  []net.Conn
	broken bool
}

func newBreaker() *breaker { return &breaker{TransportCredentials: insecure.NewCredentials()} }

// option makes the server pass its connections to the breaker.
func (b *breaker) option() grpc.ServerOption { return grpc.Creds(b) }

// errBroken is returned for a connection that was opened while the server stops.
var errBroken = errors.New("the server is stopped")

// ServerHandshake remembers each new connection.
func (b *breaker) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil, nil, errBroken
	}
	b.conns = append(b.conns, conn)
	return b.TransportCredentials.ServerHandshake(conn)
}

// Clone returns the breaker itself: a server has one.
func (b *breaker) Clone() credentials.TransportCredentials { return b }

// breakAll breaks all open connections, and refuses new ones.
func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
	for _, conn := range b.conns {
		_ = conn.Close() // most are closed already
	}
}

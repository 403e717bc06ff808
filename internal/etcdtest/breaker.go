package etcdtest

import (
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// breaker knows a server's connections and breaks them all at once. Left to
// itself a server that is closed waits for the streams of its clients, most of
// the time, and takes leave of them, which no crash does.
type breaker struct {
	credentials.TransportCredentials

	mu     sync.Mutex // mu guards what follows
	conns  []net.Conn
	broken bool
}

func newBreaker() *breaker { return &breaker{TransportCredentials: insecure.NewCredentials()} }

// option hands the server's connections to the breaker.
func (b *breaker) option() grpc.ServerOption { return grpc.Creds(b) }

// errBroken says that a connection came after the server's end had begun.
var errBroken = errors.New("the server is stopped")

// ServerHandshake sees each new connection.
func (b *breaker) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return nil, nil, errBroken
	}
	b.conns = append(b.conns, conn)
	return b.TransportCredentials.ServerHandshake(conn)
}

// Clone returns the breaker itself: there are no others of a server.
func (b *breaker) Clone() credentials.TransportCredentials { return b }

// breakAll breaks what is open, and all that comes.
func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
	for _, conn := range b.conns {
		_ = conn.Close() // most were closed long ago
	}
}

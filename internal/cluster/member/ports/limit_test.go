package ports

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Silent clients at the address of a node that take all connections which the port may have, but fewer than the
// handshakes that it may have, keep no node out.
func TestPort_fullOfHandshakes(t *testing.T) {
	const connections = handshakes / 2
	r := newBoundedRig(t, connections)
	r.port.ports.Know([]string{node.String() + ":8089", anotherNode.String() + ":8089"})
	r.serve(0)
	valid := issue(t, r.ca, "127.0.0.1")
	for range connections + 20 {
		_ = r.connect(t, node)
	}
	for range 20 {
		conn := r.connect(t, anotherNode)
		_ = conn.SetDeadline(time.Now().Add(limit / 10))
		if err := talk(conn, &valid); err != nil {
			t.Fatalf("a node is kept out: %v", err)
		}
	}
}

// A listener without a place ends, and closes handshakes only when they are many: few of them end by themselves.
func TestLimited_full(t *testing.T) {
	u := newUnfinished(4 * crowdPart)
	client, server := net.Pipe()
	defer client.Close()
	only := u.enter(node, server)
	u.makeRoom()
	if only.crowded {
		t.Error("the only handshake was closed")
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newLimited(inner, 0, u.makeRoom)
	accepted := make(chan error)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

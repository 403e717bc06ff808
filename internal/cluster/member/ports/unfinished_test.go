package ports

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
)

// anotherNode is the address of another node.
var anotherNode = netip.MustParseAddr("10.0.0.3")

// hello returns the first message of a client.
func hello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() { _ = tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() }() // ends with the server
	message := make([]byte, 1<<14)
	n, err := server.Read(message)
	if err != nil {
		t.Fatal(err)
	}
	return message[:n]
}

// Strangers behind the address of a node, such as its pods, that begin handshakes and stop in the middle keep neither this
// node nor another one out, and use a bounded number of descriptors.
func TestPort_stalledAtNode(t *testing.T) {
	r := newRig(t)
	r.port.ports.Know([]string{node.String() + ":8089", anotherNode.String() + ":8089"})
	r.serve(0)
	valid, first := issue(t, r.ca, "127.0.0.1"), hello(t)
	slow := r.connect(t, anotherNode)
	var oldest net.Conn
	for i := range 2 * handshakes {
		c := r.connect(t, node)
		if oldest == nil {
			oldest = c
		}
		if _, err := c.Write(first); err != nil && i == 0 { // later ones may be closed already
			t.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, oldest); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the oldest one stays open")
	}
	for range 20 {
		if err := talk(r.connect(t, node), &valid); err != nil {
			t.Fatalf("the node is kept out: %v", err)
		}
	}
	if err := talk(slow, &valid); err != nil {
		t.Errorf("another node is kept out: %v", err)
	}
	u := r.port.begun
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open > handshakes || u.by[node].Len() > handshakes || u.by[anotherNode] != nil {
		t.Errorf("%d handshakes are under way, of these %d of the node", u.open, u.by[node].Len())
	}
}

// What ended by itself is not counted, and of the address with most the oldest one ends.
func TestUnfinished(t *testing.T) {
	u := newUnfinished(3)
	enter := func(addr netip.Addr) *handshake {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		return u.enter(addr, server)
	}
	gone := enter(node)
	if gone.leave() {
		t.Error("there were not too many")
	}
	few, first, next := enter(anotherNode), enter(node), enter(node)
	third := enter(node)
	for range 2 { // as often as it likes
		if !first.leave() {
			t.Error("the oldest one is not closed")
		}
	}
	if few.leave() || next.leave() || third.leave() {
		t.Error("another one is closed")
	}
	if u.open != 0 || len(u.by) != 0 {
		t.Errorf("%d are left, of %d addresses", u.open, len(u.by))
	}
	if (*handshake)(nil).leave() {
		t.Error("one that is not held was closed")
	}
}

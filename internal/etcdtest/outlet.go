package etcdtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// handshake bounds what a client of an Outlet says before its connection is
// passed on.
const handshake = 5 * time.Second

// Outlet is the way out of one process: a SOCKS5 server that leads to others by
// name, to each by a Proxy of its own. So the connections from one to another
// can be cut where all know that other by one address, as etcd's members do.
// Go's own HTTP client takes it from HTTP_PROXY=socks5://ADDR, and asks it for
// every host that is not on loopback by its name.
type Outlet struct {
	listener net.Listener
	proxies  map[string]*Proxy // never changed
	running  sync.WaitGroup
}

// StartOutlet listens on a free port of loopback. targets are host:port by name.
func StartOutlet(targets map[string]string) (*Outlet, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start outlet: %w", err)
	}
	o := &Outlet{listener: l, proxies: map[string]*Proxy{}}
	for name, target := range targets {
		o.proxies[name] = newProxy(target, l)
	}
	o.running.Go(o.accept)
	return o, nil
}

// Addr returns the host:port on which the outlet listens.
func (o *Outlet) Addr() string { return o.listener.Addr().String() }

// To returns the way to a target, which ends with the outlet; nil: there is none
// of that name.
func (o *Outlet) To(name string) *Proxy { return o.proxies[name] }

// Close breaks all connections and returns when the outlet's goroutines have
// ended. It may be called twice.
func (o *Outlet) Close() {
	// Only "closed already" is possible, and no news.
	_ = o.listener.Close()
	for _, p := range o.proxies {
		p.Close()
	}
	o.running.Wait()
}

func (o *Outlet) accept() {
	for {
		conn, err := o.listener.Accept()
		if err != nil {
			return // Close closed the listener
		}
		client := conn.(*net.TCPConn)
		o.running.Go(func() {
			p, err := o.greet(client)
			if err != nil {
				reset(client)
				return
			}
			if p.keep(client) {
				p.serve(client)
			}
		})
	}
}

// greet learns where a client wants to go. It says yes at once, before anybody
// was dialled: what is cut off shows as it does behind a Proxy.
func (o *Outlet) greet(client *net.TCPConn) (*Proxy, error) {
	if err := client.SetDeadline(time.Now().Add(handshake)); err != nil {
		return nil, err
	}
	// RFC 1928. A version, and the methods to authenticate by: none will do.
	if _, err := readSized(client, 1); err != nil {
		return nil, err
	}
	if _, err := client.Write([]byte{5, 0}); err != nil {
		return nil, err
	}
	// A version, "connect", a zero, "by name", the name, and a port.
	name, err := readSized(client, 4)
	if err != nil {
		return nil, err
	}
	var port uint16
	if err := binary.Read(client, binary.BigEndian, &port); err != nil {
		return nil, err
	}
	p := o.proxies[string(name)]
	if p == nil {
		return nil, errors.New("nobody has that name")
	}
	// Yes, from an address that nobody asks for.
	if _, err := client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return nil, err
	}
	return p, client.SetDeadline(time.Time{})
}

// readSized reads some bytes that are passed over, one that tells a length, and
// as many as that.
func readSized(r io.Reader, skip int) ([]byte, error) {
	head := make([]byte, skip+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	out := make([]byte, head[skip])
	_, err := io.ReadFull(r, out)
	return out, err
}

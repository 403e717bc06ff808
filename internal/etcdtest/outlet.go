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

// handshake bounds the time until a client of an Outlet has named its target.
const handshake = 5 * time.Second

// Outlet is the proxy for all outgoing connections of one process: a SOCKS5 server
// that passes them on by name, through one Proxy for each target. So connections
// from one process to another can be cut even if all processes know the target by
// the same address, as etcd's members do. Go's HTTP client uses it with
// HTTP_PROXY=socks5://ADDR, for every host that is not on loopback.
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

// To returns the proxy to a target. The outlet closes it. It is nil if no target has
// that name.
func (o *Outlet) To(name string) *Proxy { return o.proxies[name] }

// Close breaks all connections and returns when the outlet's goroutines have
// ended. It may be called twice.
func (o *Outlet) Close() {
	// The only possible error is that it is closed already.
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

// greet reads which target a client wants. It accepts before the target is dialled,
// so a cut looks to the client as it does with a Proxy alone.
func (o *Outlet) greet(client *net.TCPConn) (*Proxy, error) {
	if err := client.SetDeadline(time.Now().Add(handshake)); err != nil {
		return nil, err
	}
	// RFC 1928. A version, and methods of authentication: none is needed.
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
		return nil, errors.New("no target has that name")
	}
	// Success. No client reads the address.
	if _, err := client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return nil, err
	}
	return p, client.SetDeadline(time.Time{})
}

// readSized skips some bytes, reads one with a length, and returns as many bytes.
func readSized(r io.Reader, skip int) ([]byte, error) {
	head := make([]byte, skip+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	out := make([]byte, head[skip])
	_, err := io.ReadFull(r, out)
	return out, err
}

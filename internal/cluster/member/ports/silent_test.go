package ports

import (
	"crypto/tls"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// A server of gRPC says to its clients at once that it stops, and stops, although other clients have said nothing after
// their handshake.
func TestPort_silentClients(t *testing.T) {
	r := newRig(t)
	server := grpc.NewServer(grpc.ConnectionTimeout(limit))
	t.Cleanup(func() { // unlike Stop, it ends handshakes
		r.port.Close()
		server.Stop()
	})
	go func() { _ = server.Serve(r.port.GRPC()) }() // ends with the server
	r.port.Start(0)
	shown := issue(t, r.ca, "127.0.0.1")
	connect := func() *tls.Conn {
		client := tls.Client(r.connect(t, node), &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{grpcProtocol}, Certificates: []tls.Certificate{shown},
		})
		_ = client.SetDeadline(time.Now().Add(limit / 10))
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		return client
	}
	read := func(c *tls.Conn) (kind byte, err error) {
		var header [9]byte
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return 0, err
		}
		_, err = io.CopyN(io.Discard, c, int64(header[1])<<8|int64(header[2]))
		return header[3], err
	}
	speaks, silent := connect(), connect()
	const settings, acknowledged, goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00", 4, 7
	if _, err := speaks.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // its settings, and that it read ours: it serves this client
		if kind, err := read(speaks); err != nil || kind != acknowledged {
			t.Fatalf("got a frame %d, %v", kind, err)
		}
	}
	if kind, err := read(silent); err != nil || kind != acknowledged { // the server waits for the client
		t.Fatalf("got a frame %d, %v", kind, err)
	}
	r.port.Deafen()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		server.GracefulStop()
	}()
	for {
		kind, err := read(speaks)
		if err != nil {
			t.Fatalf("the connection ended without a GOAWAY: %v", err)
		}
		if kind == goAway {
			break
		}
	}
	server.Stop()
	<-stopped
	r.port.mu.Lock()
	defer r.port.mu.Unlock()
	if len(r.port.silent) != 0 {
		t.Errorf("%d connections are kept", len(r.port.silent))
	}
}

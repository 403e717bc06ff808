package enrol

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/allowance"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/report"
	"github.com/lockstep-dev/lockstep/test/members"
)

func TestJoin(t *testing.T) {
	r := newRig(t, nil)
	tok := r.token(1, time.Hour)
	req := r.request("b", tok)
	got, err := Join(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.CAKey) != 0 {
		t.Error("a node that does not vote has received the key of the CA")
	}
	if got.Cluster != r.cluster.ID || got.EtcdClusterID != r.cluster.First.Member.ClusterID() || len(got.Members) != 2 {
		t.Errorf("got %+v", got)
	}
	cert, err := pki.ParseCertificate(got.Certificate)
	if err != nil || cert.Subject.CommonName != "b" || len(cert.IPAddresses) != 1 {
		t.Errorf("got %+v, %v", cert, err)
	}
	// The same node asks again: the same member, and no other use.
	again, err := Join(t.Context(), req)
	if err != nil || again.MemberID != got.MemberID || len(again.Members) != 2 {
		t.Errorf("again: got %+v, %v", again, err)
	}
	all, err := token.List(t.Context(), r.client)
	if err != nil || len(all) != 1 || len(all[0].UsedBy) != 1 {
		t.Errorf("got %+v, %v, want one use", all, err)
	}
	// It can still finish after the token expired.
	late := req
	late.URL = r.serve(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	if again, err := Join(t.Context(), late); err != nil || again.MemberID != got.MemberID {
		t.Errorf("after the token has expired: got %+v, %v", again, err)
	}
}

// wantRefused joins, and wants a refusal with a text.
func wantRefused(t *testing.T, what string, req Request, status int, texts ...string) {
	t.Helper()
	_, err := Join(t.Context(), req)
	refused, is := errors.AsType[*RefusedError](err)
	if !is || refused.Status != status {
		t.Errorf("%s: got %v, want status %d", what, err, status)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not have %q", what, err, text)
		}
	}
	if strings.Contains(err.Error(), "rpc error") || strings.Contains(err.Error(), fmt.Sprintf("%x", req.Token.Secret[:])) {
		t.Errorf("%s: %q is no text for people", what, err)
	}
}

const create = "sidecar cluster token create"

func TestJoin_refused(t *testing.T) {
	r := newRig(t, nil)
	tok := r.token(1, time.Hour)
	if _, err := Join(t.Context(), r.request("b", tok)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "used", r.request("c", tok), http.StatusForbidden, "no uses left", create+" --node c")

	wrong := tok
	wrong.Secret[0] ^= 1
	wantRefused(t, "wrong secret", r.request("c", wrong), http.StatusUnauthorized, "secret is wrong", create)
	unknown := tok
	unknown.ID = "zzzzzz"
	wantRefused(t, "unknown", r.request("c", unknown), http.StatusUnauthorized, "no such token", create)

	revoked := r.token(1, time.Hour)
	if err := token.Revoke(t.Context(), r.client, revoked.ID); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "revoked", r.request("c", revoked), http.StatusForbidden, "revoked", create)

	late := r.request("c", r.token(1, time.Hour))
	late.URL = r.serve(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	wantRefused(t, "expired", late, http.StatusForbidden, "expired", create)

	more := r.token(5, time.Hour)
	wantRefused(t, "a node ID in use", r.request("b", more), http.StatusConflict, `the node ID "b" is in use`, "sidecar cluster remove")
	sameAddress := r.request("c", more)
	sameAddress.PeerPort = members.Port(r.cluster.First.PeerURL)
	wantRefused(t, "an address in use", sameAddress, http.StatusConflict, `in use by node "a"`)
	all, err := token.List(t.Context(), r.client)
	for _, s := range all {
		if err != nil || s.ID == more.ID && len(s.UsedBy) != 0 {
			t.Errorf("refusals cost a use: %+v, %v", s, err)
		}
	}

	// Another key of a node that used the token.
	other := r.token(2, time.Hour)
	first := r.request("d", other)
	if _, err := Join(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := quorum.Remove(t.Context(), r.client, quorum.Removal{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "a removed node", first, http.StatusGone, "was removed", "new token")
	second := first
	second.Key = newKey(t)
	wantRefused(t, "another key", second, http.StatusForbidden, "another key", create)
}

// TestJoin_bound: a token for a node is refused for another node, which is not added.
func TestJoin_bound(t *testing.T) {
	r := newRig(t, nil)
	tok, _, err := token.Create(t.Context(), r.client, token.Spec{CA: r.cluster.CA.Hash(), TTL: time.Hour, Uses: 1, Node: "b"})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, "another node", r.request("evil", tok), http.StatusForbidden, `it is for node "b", and this node is "evil"`, "--node-id", create+" --node evil")
	if all, err := r.client.Members(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("got %+v, %v, want one member", all, err)
	}
	if _, err := Join(t.Context(), r.request("b", tok)); err != nil {
		t.Errorf("the node of the token: %v", err)
	}
}

// TestJoin_sidecarAlive: a node ID whose sidecar is alive is refused, and not for good.
func TestJoin_sidecarAlive(t *testing.T) {
	r := newRig(t, nil)
	key := keyspace.Under(members.Prefix).Presence("b")
	if _, err := r.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpPut(key, "")}, nil); err != nil {
		t.Fatal(err)
	}
	req := r.request("b", r.token(1, time.Hour))
	wantRefused(t, "a sidecar that is alive", req, http.StatusServiceUnavailable, "is alive", "--node-id")
	if _, err := r.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpDelete(key)}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// TestJoin_noQuorum: without a majority, the join is refused for now. The client's token
// may be invalid, so only the log names the endpoints of etcd.
func TestJoin_noQuorum(t *testing.T) {
	var logged bytes.Buffer
	r := newRig(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	req := r.request("b", r.token(1, time.Hour))
	r.cluster.First.Stop()
	_, err := Join(t.Context(), req)
	refused, is := errors.AsType[*RefusedError](err)
	if !is || refused.Permanent() || !strings.Contains(err.Error(), "does not reach a majority") {
		t.Fatalf("got %v", err)
	}
	endpoint, err := url.Parse(r.cluster.First.ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(refused.Error(), endpoint.Host) || !strings.Contains(logged.String(), endpoint.Host) {
		t.Errorf("the answer is %v, and the log\n%s\nwant %s in the log alone", refused, logged.String(), endpoint.Host)
	}
}

// TestJoin_manInTheMiddle: a server with a certificate of another CA gets nothing, also
// if it presents the cluster's CA beside it. Neither does one with the certificate of
// another address.
func TestJoin_manInTheMiddle(t *testing.T) {
	r := newRig(t, nil)
	tok := r.token(1, time.Hour)
	other, err := pki.NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(ca *pki.CA, address string, chain ...*pki.CA) tls.Certificate {
		return members.Certificate(t, ca, "m", address, chain...)
	}
	// The hash of another CA in the token is the same from the joining node's side.
	wrongHash := tok
	wrongHash.CA[0] ^= 1
	for name, tt := range map[string]struct {
		cert tls.Certificate
		tok  token.Token
		want string
	}{
		"another CA":                     {pair(other, "127.0.0.1", other), tok, "another CA"},
		"another CA, beside the right":   {pair(other, "127.0.0.1", r.cluster.CA), tok, "invalid"},
		"no CA in the chain":             {pair(r.cluster.CA, "127.0.0.1"), tok, "another CA"},
		"the certificate of another one": {pair(r.cluster.CA, "127.0.0.9", r.cluster.CA), tok, "use that address"},
		"the wrong hash":                 {pair(r.cluster.CA, "127.0.0.1", r.cluster.CA), wrongHash, "another CA"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{tt.cert}})
			if err != nil {
				t.Fatal(err)
			}
			var received atomic.Int64
			server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				n, _ := io.Copy(io.Discard, req.Body)
				received.Add(n + 1)
			})}
			var running sync.WaitGroup
			running.Go(func() { _ = server.Serve(l) })
			req := r.request("b", tt.tok)
			req.URL = "https://" + l.Addr().String()
			_, err = Join(t.Context(), req)
			if _, is := errors.AsType[*UntrustedError](err); !is || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want UntrustedError with %q", err, tt.want)
			}
			_ = server.Close()
			running.Wait()
			if received.Load() != 0 {
				t.Errorf("it received %d bytes", received.Load())
			}
		})
	}
}

// TestVerify_clocks: this node's clock may be an hour off, on either side, right after
// the certificate was issued and right before it ends. Far more is refused.
func TestVerify_clocks(t *testing.T) {
	ca, err := pki.NewCA("x")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.EnsureCertificate(t.TempDir(), ca, "a", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]bool{
		time.Now().Add(-time.Hour):         true,
		time.Now().Add(time.Hour):          true,
		cert.NotBefore.Add(-time.Hour):     true,
		cert.NotAfter.Add(time.Hour):       true,
		cert.NotBefore.Add(-3 * time.Hour): false,
		cert.NotAfter.Add(3 * time.Hour):   false,
	} {
		state := tls.ConnectionState{}
		state.PeerCertificates = append(state.PeerCertificates, cert, ca.Certificate())
		err := verify(state, "https://127.0.0.1:8087", ca.Hash(), at)
		if (err == nil) != want {
			t.Errorf("valid from %s to %s, at %s: got %v", cert.NotBefore, cert.NotAfter, at, err)
		}
	}
}

// TestJoin_memberClock: the member's clock decides on the token, and it may be an hour
// off from the one on which the token was created.
func TestJoin_memberClock(t *testing.T) {
	r := newRig(t, nil)
	early := r.request("b", r.token(1, time.Hour))
	early.URL = r.serve(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	if _, err := Join(t.Context(), early); err != nil {
		t.Errorf("the member's clock is an hour late: %v", err)
	}
	ahead := r.request("c", r.token(1, 2*time.Hour))
	ahead.URL = r.serve(func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Hour) } })
	if _, err := Join(t.Context(), ahead); err != nil {
		t.Errorf("the member's clock is an hour ahead: %v", err)
	}
}

// TestJoin_manyAtOnce: ten nodes join at the same moment with one token for ten. None is
// refused for good, and no member is left over.
func TestJoin_manyAtOnce(t *testing.T) {
	r := newRig(t, nil)
	tok := r.token(10, time.Hour)
	// No member starts here, so as soon as one was added it is removed again, as if it
	// were promoted and others could follow.
	var all sync.WaitGroup
	for i := range 10 {
		req := r.request(fmt.Sprintf("n%d", i), tok)
		all.Go(func() {
			for {
				got, err := Join(t.Context(), req)
				if err == nil {
					if err := r.client.RemoveMember(t.Context(), got.MemberID); err != nil {
						t.Error(err)
					}
					return
				}
				if refused, is := errors.AsType[*RefusedError](err); is && refused.Permanent() {
					t.Errorf("%s: %v", req.Node, err)
					return
				}
				<-time.After(50 * time.Millisecond)
			}
		})
	}
	all.Wait()
	list, err := r.client.Members(t.Context())
	stored, storedErr := token.List(t.Context(), r.client)
	if err != nil || storedErr != nil || len(list) != 1 || len(stored[0].UsedBy) != 10 {
		t.Errorf("got %+v and %+v, %v, %v", list, stored, err, storedErr)
	}
}

// send posts a body as a client does that knows the CA.
func (r *rig) send(method, path string, body []byte) (*http.Response, string) {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(r.url, r.cluster.CA.Hash()), DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(text)
}

func TestServer_badRequests(t *testing.T) {
	r := newRig(t, nil)
	valid, err := r.request("b", r.token(1, time.Hour)).encode()
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, replaced string) []byte {
		out := bytes.Replace(valid, []byte(old), []byte(replaced), 1)
		if bytes.Equal(out, valid) {
			t.Fatalf("%q is not in the request", old)
		}
		return out
	}
	for name, tt := range map[string]struct {
		method, path string
		body         []byte
		status       int
		text         string
	}{
		"another path":       {http.MethodPost, "/", valid, 404, Path},
		"another method":     {http.MethodGet, Path, nil, 405, Path},
		"no body":            {http.MethodPost, Path, nil, 400, "not a join request"},
		"no JSON":            {http.MethodPost, Path, []byte("x"), 400, "not a join request"},
		"two values":         {http.MethodPost, Path, append(bytes.Clone(valid), valid...), 400, "more than one"},
		"unknown field":      {http.MethodPost, Path, with(`"node":`, `"more":1,"node":`), 400, `unknown field \"more\"`},
		"too large":          {http.MethodPost, Path, with(`"node":"b"`, `"node":"`+strings.Repeat("b", maxBody)+`"`), 413, "16384"},
		"no request":         {http.MethodPost, Path, with(`"certificateRequest":"`, `"certificateRequest":"AAAA`), 400, "certificateRequest"},
		"no node ID":         {http.MethodPost, Path, with(`"node":"b"`, `"node":"../b"`), 400, "--node-id"},
		"node ID with upper": {http.MethodPost, Path, with(`"node":"b"`, `"node":"B"`), 400, "--node-id"},
		"a long node ID":     {http.MethodPost, Path, with(`"node":"b"`, `"node":"`+strings.Repeat("b", 254)+`"`), 400, "--node-id"},
		"a host name":        {http.MethodPost, Path, with(`"127.0.0.1"`, `"localhost"`), 400, "--node-address"},
		"no address":         {http.MethodPost, Path, with(`"127.0.0.1"`, `"0.0.0.0"`), 400, "--node-address"},
		"odd address":        {http.MethodPost, Path, with(`"127.0.0.1"`, `"::ffff:127.0.0.1"`), 400, "--node-address"},
		"no port":            {http.MethodPost, Path, with(`"peerPort":`, `"peerPort":1000000`), 400, "peerPort"},
		"a short secret":     {http.MethodPost, Path, with(`"secret":"`, `"secret":"AAAA`), 400, "token"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, text := r.send(tt.method, tt.path, tt.body)
			var p report.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || resp.StatusCode != tt.status || p.Status != tt.status || !strings.Contains(text, tt.text) {
				t.Errorf("got %s: %s, want %d with %q", resp.Status, text, tt.status, tt.text)
			}
			if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("got %s", got)
			}
			if got := resp.Header.Get("Cache-Control"); got != "no-store" {
				t.Errorf("got %s", got)
			}
		})
	}
	list, err := r.client.Members(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("got the members %+v, %v", list, err)
	}
	if resp, text := r.send(http.MethodPost, Path, valid); resp.StatusCode != http.StatusOK {
		t.Errorf("the valid one: %s: %s", resp.Status, text)
	}
}

// A stranger costs no check of a signature: not with a key of no node, and not without a token.
func TestServer_signatureLast(t *testing.T) {
	r := newRig(t, nil)
	req := r.request("b", r.token(1, time.Hour))
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		key    crypto.Signer
		secret byte
		status int
		text   string
	}{
		"a key of another kind, unsigned":         {large, 0, 400, "no P-256 key"},
		"no valid token, unsigned":                {req.Key, 1, 401, "token"},
		"a valid token, and an invalid signature": {req.Key, 0, 400, "certificateRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, tt.key)
			if err != nil {
				t.Fatal(err)
			}
			der[len(der)-1] ^= 1 // the end of the signature
			body, err := req.encode()
			if err != nil {
				t.Fatal(err)
			}
			var in request
			if err := json.Unmarshal(body, &in); err != nil {
				t.Fatal(err)
			}
			in.CertificateRequest = der
			in.Token.Secret[0] ^= tt.secret
			if body, err = json.Marshal(in); err != nil {
				t.Fatal(err)
			}
			resp, text := r.send(http.MethodPost, Path, body)
			if resp.StatusCode != tt.status || !strings.Contains(text, tt.text) {
				t.Errorf("got %s: %s, want %d with %q", resp.Status, text, tt.status, tt.text)
			}
		})
	}
}

// The text of a stranger's request does not fill the log.
func TestServer_logIsBounded(t *testing.T) {
	var logged bytes.Buffer
	r := newRig(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	resp, _ := r.send(http.MethodPost, Path, []byte(`{"`+strings.Repeat("x", maxBody/2)+`":1}`))
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %s", resp.Status)
	}
	if n := logged.Len(); n == 0 || n > maxLogged+200 {
		t.Errorf("%d bytes in the log: %.400s", n, logged.String())
	}
}

// TestServer_attack: 2,000 wrong secrets are refused at a bounded rate, most of them
// before the handshake, and the member's own requests go on.
func TestServer_attack(t *testing.T) {
	const attempts = 2_000
	var reads atomic.Int64
	r := newRig(t, func(c *Config) { c.Limits = Limits{} })
	bad := r.request("b", r.token(1, time.Hour))
	bad.Token.Secret[0] ^= 1
	ctx, stop := context.WithCancel(t.Context())
	var own sync.WaitGroup
	own.Go(func() {
		for ctx.Err() == nil {
			if _, err := r.client.Get(ctx, "/lockstep/x"); err != nil && ctx.Err() == nil {
				t.Errorf("a request of the member: %v", err)
				return
			}
			reads.Add(1)
		}
	})
	began := time.Now()
	var checked, limits429, broken atomic.Int64
	var attackers sync.WaitGroup
	for range 16 {
		attackers.Go(func() {
			for range attempts / 16 {
				_, err := Join(ctx, bad)
				refused, is := errors.AsType[*RefusedError](err)
				switch {
				case !is:
					broken.Add(1)
				case refused.Status == http.StatusTooManyRequests:
					limits429.Add(1)
				case refused.Status == http.StatusUnauthorized:
					checked.Add(1)
				default:
					t.Errorf("got %v", err)
				}
			}
		})
	}
	attackers.Wait()
	took := time.Since(began)
	stop()
	own.Wait()
	limits := defaultLimits
	most := float64(limits.Burst) + float64(limits.PerAddress)*took.Seconds() + 1
	mostHandshakes := connectionsPerRequest * most
	t.Logf("%d wrong secrets in %s: %d checked, %d limited, %d closed; %d reads of the member", attempts, took, checked.Load(), limits429.Load(), broken.Load(), reads.Load())
	if float64(checked.Load()) > most || float64(checked.Load()+limits429.Load()) > mostHandshakes {
		t.Errorf("%d were checked and %d limited in %s, want at most %.0f and %.0f in all", checked.Load(), limits429.Load(), took, most, mostHandshakes)
	}
	if checked.Load() == 0 || limits429.Load() == 0 || broken.Load() == 0 || reads.Load() == 0 {
		t.Error("one kind of answer is missing")
	}
	// The address may join again when it is quiet.
	good := bad
	good.Token.Secret[0] ^= 1
	for {
		_, err := Join(t.Context(), good)
		if err == nil {
			break
		}
		if refused, is := errors.AsType[*RefusedError](err); is && refused.Permanent() {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

func TestGuard_manyAddresses(t *testing.T) {
	g := newGuard(defaultLimits)
	for i := range 3 * maxAddresses {
		addr := allowance.AddressOf(net.JoinHostPort(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "1"))
		if g.mayConnect(addr) {
			g.closed(addr)
		}
	}
	if len(g.addresses) > maxAddresses || g.open != 0 {
		t.Errorf("got %d addresses and %d open connections", len(g.addresses), g.open)
	}
	// One machine can use many addresses of IPv6, which count as one.
	six := newGuard(defaultLimits)
	for i := range 100 {
		six.mayRequest(allowance.AddressOf(net.JoinHostPort(fmt.Sprintf("2001:db8::%x", i), "1")))
	}
	if len(six.addresses) != 1 {
		t.Errorf("got %d addresses, want 1", len(six.addresses))
	}
	open := newGuard(Limits{PerAddress: 1e6, InAll: 1e6, Burst: 1e6})
	n := 0
	for open.mayConnect(allowance.AddressOf("10.0.0.1:1")) {
		n++
	}
	if n != maxOpenPerAddress {
		t.Errorf("one address has %d open connections, want %d", n, maxOpenPerAddress)
	}
}

func TestJoinURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://10.0.0.1:8087":  "https://10.0.0.1:8087" + Path,
		"https://10.0.0.1:8087/": "https://10.0.0.1:8087" + Path,
		"https://[::1]:8087":     "https://[::1]:8087" + Path,
		"http://10.0.0.1:8087":   "", "10.0.0.1:8087": "", "https://10.0.0.1": "", "https://a:b@10.0.0.1:8087": "", "": "",
		"https://10.0.0.1:8087/v1": "", "https://10.0.0.1:8087?x": "", "https://:8087": "",
	} {
		got, err := JoinURL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

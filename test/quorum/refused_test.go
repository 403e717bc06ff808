package quorum

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/members"
)

// withToken replaces the token of the flags of a join.
func withToken(t *testing.T, args []string, change func(*token.Token)) []string {
	t.Helper()
	tok, err := token.Parse(strings.TrimPrefix(args[1], "--token="))
	if err != nil {
		t.Fatal(err)
	}
	change(&tok)
	return []string{args[0], "--token=" + tok.Text()}
}

// A node joins with a token that is not valid, in each way. It ends with what to do, and
// the cluster stays as it is. With a valid token, and the same directory, it joins.
func TestJoin_refusedTokens(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	a, b := rig.Node("a"), rig.Node("b")
	a.Start()
	a.AwaitRunning()
	const create = "sidecar cluster token create"
	for _, tt := range []struct {
		name   string
		change func(args []string) []string
		want   []string
	}{
		{"expired", func(args []string) []string {
			expireToken(t, a) // it is the only one
			return args
		}, []string{"the token has expired", create}},
		{"revoked", func(args []string) []string {
			a.command(t, "cluster", "token", "revoke", strings.TrimPrefix(args[1], "--token="))
			return args
		}, []string{"the token was revoked", create}},
		{"mistyped", func(args []string) []string {
			last := len(args[1]) - 1
			other := strings.Replace("xy", args[1][last:], "", 1)[:1]
			return []string{args[0], args[1][:last] + other}
		}, []string{"not a valid token", "copy it again"}},
		{"wrong secret", func(args []string) []string {
			return withToken(t, args, func(tok *token.Token) { tok.Secret[0] ^= 1 })
		}, []string{"the token's secret is wrong", create}},
		{"unknown", func(args []string) []string {
			return withToken(t, args, func(tok *token.Token) { tok.ID = "zzzzzz" })
		}, []string{"no such token", create}},
		{"hash of another CA", func(args []string) []string {
			return withToken(t, args, func(tok *token.Token) { tok.CA[0] ^= 1 })
		}, []string{"is not a member of the token's cluster", "another CA than the token names", "nothing was sent to it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.change(joinArgs(t, a, 1))
			wantText(t, b.Refused(args...), tt.want...)
			for _, stored := range tokensOf(t, a) {
				if len(stored.UsedBy) > 0 {
					t.Errorf("got %+v, want no use", stored)
				}
			}
			wantMembersOf(t, a, "a")
		})
	}
	b.Start(joinArgs(t, a, 1)...)
	awaitVoters(a, b)
	wantMembersOf(t, a, "a", "b")
}

// Another server is between a node that joins and the member: it passes everything on. Either
// it ends the TLS connection, with a certificate that it has, or it passes on the member's at
// an address that is not the member's. The node ends and says so, and the member gets nothing.
func TestJoin_manInTheMiddle(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	a, b, middle := rig.Node("a"), rig.Node("b"), rig.Node("middle")
	a.Start()
	a.AwaitRunning()
	args := joinArgs(t, a, 1)
	other, err := pki.NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.LoadCA(datadir.Layout(a.Dir).PKI())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		chain []*pki.CA // nil: it passes on bytes
		want  string
	}{
		"with another CA": {[]*pki.CA{other}, "another CA than the token names"},
		"with another CA and the certificate of the right one": {[]*pki.CA{authority}, "its certificate is invalid"},
		"with the member's own certificate":                    {nil, "not for " + middle.Address},
	} {
		t.Run(name, func(t *testing.T) {
			passed := passOn(t, middle, a, other, tt.chain)
			wantText(t, b.Refused(joinAt(args, middle)...), tt.want, "https://"+middle.Address+":8087 is not a member of the token's cluster", "nothing was sent to it")
			if n := passed.Load(); n > 0 {
				t.Errorf("the other server got %d bytes", n)
			}
			wantUnused(t, a, args[1])
			wantMembersOf(t, a, "a")
		})
	}
	b.Start(args...)
	awaitVoters(a, b)
}

// passOn answers at the join port of one node what the member of another one answers. With a
// chain, it ends the TLS connection itself, with a certificate of issuer and these of
// authorities; then it counts what it gets. It ends with the test.
func passOn(t *testing.T, at, to *Node, issuer *pki.CA, chain []*pki.CA) (passed *atomic.Int64) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", at.Address+":8087")
	if err != nil {
		t.Fatal(err)
	}
	passed = &atomic.Int64{}
	dial := func() (net.Conn, error) { return net.Dial("tcp", to.Address+":8087") }
	if chain != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{members.Certificate(t, issuer, at.ID, at.Address, chain...)}})
		dial = func() (net.Conn, error) {
			return tls.Dial("tcp", to.Address+":8087", &tls.Config{InsecureSkipVerify: true}) // it attacks
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			running.Go(func() {
				defer client.Close()
				member, err := dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer member.Close()
				running.Go(func() { _, _ = io.Copy(client, member) }) // until one side closes
				n, _ := io.Copy(member, client)
				if chain != nil {
					passed.Add(n)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait(); etcdtest.AwaitFree(at.Address + ":8087") })
	return passed
}

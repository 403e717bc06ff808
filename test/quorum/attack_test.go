package quorum

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// A client sends 2,000 wrong secrets to the member that leads etcd. Few are checked, as
// the limits of the port allow. Meanwhile writes go on, and the same member leads.
func TestJoin_wrongSecrets(t *testing.T) {
	const attempts, attackers = 2_000, 8
	a, b, c := newThree(t)
	leader := leaderOf(t, a, b, c)
	args := joinArgs(t, leader, 1)
	tok, err := token.Parse(strings.TrimPrefix(args[1], "--token="))
	if err != nil {
		t.Fatal(err)
	}
	tok.Secret[0] ^= 1
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := enrol.Request{
		URL: strings.TrimPrefix(args[0], "--join="), Token: tok, Node: "x", Address: a.rig.Node("x").Address,
		PeerPort: 8089, ClientPort: 8088, JoinPort: 8087, Key: key,
	}
	writes := startLoad(t, a, b, c)
	writes.awaitMore(t, 20)
	began := time.Now()
	var checked, others atomic.Int64
	var running sync.WaitGroup
	for range attackers {
		running.Go(func() {
			for range attempts / attackers {
				_, err := enrol.Join(t.Context(), request)
				refusal, is := errors.AsType[*enrol.RefusedError](err)
				switch {
				case err == nil:
					t.Error("a wrong secret was accepted")
				case is && refusal.Status == http.StatusUnauthorized:
					checked.Add(1)
				default:
					others.Add(1)
				}
			}
		})
	}
	writes.awaitMore(t, 20)
	running.Wait()
	// At first 30 requests of one address may come at once, and then 5 a second.
	if most := 31 + 5*time.Since(began).Seconds(); float64(checked.Load()) > most || checked.Load() == 0 || others.Load() == 0 {
		t.Errorf("%d were checked and %d refused before, want at most %.0f checked", checked.Load(), others.Load(), most)
	}
	writes.awaitMore(t, 20)
	writes.end()
	if now := leaderOf(t, a, b, c); now != leader {
		t.Errorf("%s leads etcd, and %s did before", now.ID, leader.ID)
	}
	t.Logf("%d wrong secrets in %s: %d checked; %d writes", attempts, time.Since(began).Round(time.Second), checked.Load(), writes.count())
	wantMembersOf(t, a, "a", "b", "c")
}

// leaderOf returns the node whose member leads etcd.
func leaderOf(t *testing.T, nodes ...*Node) (leader *Node) {
	t.Helper()
	client := nodes[0].Client()
	cluster.Await(t, "a leader of etcd", func(ctx context.Context) error {
		for _, n := range nodes {
			status, err := client.MemberStatus(ctx, n.Marker().ClientURL())
			if err != nil {
				return err
			}
			if status.Leader == status.ID {
				leader = n
				return nil
			}
		}
		return errors.New("no member leads")
	})
	return leader
}

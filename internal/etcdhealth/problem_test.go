package etcdhealth

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// A node with a member of its own runs without --etcd-servers. On its way into the
// cluster, it shows the message of the cluster manager.
func TestWatch_embedded(t *testing.T) {
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	port := int(netip.MustParseAddrPort(addr).Port())
	embedded := &cluster.Embedded{DataDir: t.TempDir(), Node: "me", Address: "127.0.0.1", ClientPort: port}
	reach := embedded.EtcdConfig("/lockstep/")
	reach.CAFile, reach.CertFile, reach.KeyFile = "", "", "" // no file is read before the connection
	w := newWatch(t, reach, embedded)
	for _, tc := range []struct {
		status cluster.Status
		want   string
	}{
		{cluster.Status{State: cluster.CreatingCluster}, "this node is on its way into its cluster; the row CLUSTER of sidecar status has more"},
		{cluster.Status{State: cluster.JoiningCluster, Problem: "the cluster is busy"}, "the cluster is busy"},
		{cluster.Status{State: cluster.Running}, "connection refused; no etcd member runs there: check the sidecar of that node, and its log (worker=etcd-member)"},
	} {
		w.cfg.Cluster.Status().Set(tc.status)
		if got := w.diagnose(t.Context()); !strings.HasSuffix(got, tc.want) || strings.Contains(got, "--etcd-servers") {
			t.Errorf("%s: got %q, want %q", tc.status.State, got, tc.want)
		}
	}
}

// While etcd does not answer, sidecars ask it ever less often for the reason, each at times
// of its own. When it answers again, they do not wait for the rest of the pause.
func TestAwaitEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contact := event.New(etcd.Contact{Problem: "no answer"})
		wait := func(pause time.Duration, other ...<-chan struct{}) (bool, time.Duration) {
			began := time.Now()
			answers := awaitEtcd(t.Context(), contact, pause, other...)
			return answers, time.Since(began)
		}
		later := func(change func()) { go func() { <-time.After(time.Second); change() }() }
		pauses := diagnosisPauses()
		for _, most := range []time.Duration{5, 10, 20, 40, 60, 60} {
			most *= time.Second
			pause := pauses.Next()
			later(func() { contact.Set(etcd.Contact{Problem: "still no answer"}) })
			if answers, took := wait(pause); answers || took != pause || took > most || took < most/2 {
				t.Errorf("etcd does not answer: got %t after %s, want false after at most %s and half of that", answers, took, most)
			}
		}
		for i := range 2 {
			others := []chan struct{}{make(chan struct{}), make(chan struct{})}
			later(func() { close(others[i]) })
			if answers, took := wait(time.Minute, others[0], others[1]); answers || took != time.Second {
				t.Errorf("another change: got %t after %s", answers, took)
			}
		}
		later(func() { contact.Set(etcd.Contact{Connected: true}) })
		if answers, took := wait(time.Minute); !answers || took != time.Second {
			t.Errorf("etcd answers: got %t after %s", answers, took)
		}
	})
}

func newWatch(t *testing.T, reach etcd.Config, embedded *cluster.Embedded) *Watch {
	t.Helper()
	client, err := etcd.NewClient(reach)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	log := slog.New(slog.DiscardHandler)
	return New(Config{
		Client: client, Cluster: cluster.NewManager(cluster.Config{Embedded: embedded, Client: client, Reach: reach, Log: log}),
		Embedded: embedded != nil, Log: log,
	})
}

// An etcd that is full is found although nothing is written.
func TestAskIfFull(t *testing.T) {
	server := etcdtest.New(t)
	w := newWatch(t, etcd.Config{Endpoints: server.Endpoints(), Prefix: "/lockstep/"}, nil)
	if _, err := w.cfg.Client.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	w.askIfFull(t.Context())
	if got := w.Problem().Get(); got != (Problem{}) {
		t.Errorf("got %+v", got)
	}
	etcdtest.Fill(t, server.Client(t))
	w.askIfFull(t.Context())
	if got := w.Problem().Get(); !got.Full || !strings.Contains(got.Text, " alarm disarm") {
		t.Errorf("got %+v", got)
	}
}

// The manager's sentence about this node's own member replaces the one about its server.
func TestWithoutServer(t *testing.T) {
	found := []string{"https://10.0.0.1:8088 is not healthy: RAFT NO LEADER", "https://10.0.0.1:80: refused", "https://10.0.0.1:8088: refused", "https://10.0.0.2:8088: refused"}
	got := strings.Join(withoutServer(found, "https://10.0.0.1:8088"), "|")
	if want := "https://10.0.0.1:80: refused|https://10.0.0.2:8088: refused"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

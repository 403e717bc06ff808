package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
)

const limit = time.Minute

// newFlow returns the flow of a node on loopback with an empty directory. It is closed
// when the test ends. shown gets the reason of each wait.
func newFlow(t *testing.T, shown func(string)) *flow {
	t.Helper()
	return newPatientFlow(t, shown, 0)
}

// newPatientFlow does the same, with a client that waits this long for each answer of etcd; 0: as long as usual.
func newPatientFlow(t *testing.T, shown func(string), request time.Duration) *flow {
	t.Helper()
	e := Embedded{DataDir: filepath.Join(t.TempDir(), "data"), Node: "a", Address: "127.0.0.1", Command: []string{os.Args[0], childCommand}}
	for _, port := range []*int{&e.PeerPort, &e.ClientPort, &e.JoinPort} {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		if *port, err = strconv.Atoi(strings.TrimPrefix(addr, e.Address+":")); err != nil {
			t.Fatal(err)
		}
	}
	cfg := e.EtcdConfig("/lockstep/")
	cfg.RequestTimeout = request
	client, err := etcd.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	shared := newSharer(client, log, Membership{})
	shared.node, shared.own, shared.used, shared.others = "n", client.Endpoint(), true, nil
	f := flowOf(newParts(&e, client, log, shared, process{show: shown, state: event.New(member.State{}), measures: event.New(member.Measures{})}), event.New(false))
	t.Cleanup(func() {
		if err := errors.Join(f.close(), client.Close()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// create carries out the steps of a creation.
func create(t *testing.T, f *flow) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := f.carryOut(ctx, "create", createSteps()); err != nil {
		t.Fatalf("%v; the member: %+v", err, f.state.Get())
	}
}

// A disk that is full when etcd allocates its log leaves a database without a log. The
// status shows that, and when there is space again the member begins.
func TestCreate_diskFull(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	f := newFlow(t, func(problem string) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, problem)
	})
	rest := filepath.Join(f.cfg.DataDir, "etcd", "member", "snap", "db")
	f.cfg.Command = []string{"/bin/sh", "-c", `if [ ! -e "$1" ]; then
	read -r spec
	mkdir -p "$(dirname "$2")"
	echo rest > "$2"
	echo '{"event":"failed","problem":"allocate the log: no space left on device"}'
	touch "$1"
	exit 1
fi
exec "$0" "$3"`, os.Args[0], filepath.Join(t.TempDir(), "failed"), rest, childCommand}
	create(t, f)
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(strings.Join(shown, "\n"), "no space left on device") {
		t.Errorf("the status had %q", shown)
	}
}

// A member of an etcd whose database is full is started again: keys that exist already are not written.
func TestRestart_full(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	etcdtest.Fill(t, rawClient(t, f))
	if !f.client.Full(t.Context()) {
		t.Fatal("etcd is not full")
	}
	for _, s := range restartSteps() {
		if s.name != "record" && s.name != "announce" {
			continue
		}
		if err := s.run(t.Context(), f); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// rawClient reaches the member of a flow without a client of ours.
func rawClient(t *testing.T, f *flow) *clientv3.Client {
	t.Helper()
	cfg, err := pki.ClientTLS(f.dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{f.marker.ClientURL()}, TLS: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// The data of a member is never deleted: only the files of an etcd that never began.
func TestPrepareMember(t *testing.T) {
	f := newFlow(t, func(string) {})
	for _, s := range createSteps()[:5] {
		if err := s.run(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	rest := filepath.Join(f.dir.Etcd(), "member", "snap", "db")
	for phase, deleted := range map[datadir.Phase]bool{datadir.Begun: true, datadir.Enrolled: true, datadir.Member: false, datadir.Removed: false} {
		if err := f.writeMarker(func(m *datadir.Marker) { m.Phase, m.MemberID, m.EtcdClusterID = phase, "1", "2" }); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(rest), 0o700), os.WriteFile(rest, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := f.prepareMember(); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
		if _, err := os.Stat(rest); errors.Is(err, fs.ErrNotExist) != deleted {
			t.Errorf("%s: deleted is %t, want %t", phase, !deleted, deleted)
		}
	}
}

// writeCertificate replaces the certificate by one of the same key that ends then. Less than a third of
// its life is left.
func writeCertificate(t *testing.T, dir string, end time.Time) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.CACertFile), filepath.Join(dir, pki.CAKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	now, err := pki.ReadCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	due := *now
	due.SerialNumber = big.NewInt(0xd0e)
	due.NotBefore, due.NotAfter = end.Add(-365*24*time.Hour), end
	der, err := x509.CreateCertificate(rand.Reader, &due, pair.Leaf, now.PublicKey, pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pki.WriteCertificate(dir, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// served returns the certificate that a port serves now.
func served(t *testing.T, dir, url string) *x509.Certificate {
	t.Helper()
	cfg, err := pki.ClientTLS(dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func wait(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// The certificate of a member is renewed while it serves: it is not started again, each
// new connection gets the new one, open connections go on, and the cluster's record of the
// member contains its serial.
func TestRenewal(t *testing.T) {
	f := newFlow(t, func(string) {})
	create(t, f)
	dir, before := f.dir.PKI(), f.state.Get()
	n := newNode(f.parts, event.New[[]Observed](nil), func(string) {}, t.Context().Done())
	n.renewEvery = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = n.live(ctx, wait, wait, wait) }) // its error is that ctx ended
	defer func() { cancel(); running.Wait() }()

	first, due := served(t, dir, f.marker.ClientURL()), writeCertificate(t, dir, time.Now().Add(60*24*time.Hour))
	key := keyspace.Under("/lockstep/").ClusterMember(before.MemberID)
	setLeaving(t, f, key)
	deadline := time.After(limit)
	for serial := ""; serial == "" || serial == first.SerialNumber.Text(16) || serial == due.SerialNumber.Text(16); {
		select {
		case <-deadline:
			t.Fatalf("the record has the serial %s", serial)
		case <-time.After(n.renewEvery):
		}
		resp, err := f.client.Get(t.Context(), key)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("the record of the member: %v, %v", resp, err)
		}
		rec, err := record.DecodeMember(key, resp.Kvs[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		if serial = rec.Serial; !rec.Leaving {
			t.Fatal("the removal of the member, which was decided, is forgotten")
		}
	}
	now, err := pki.ReadCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{f.marker.ClientURL(), f.marker.PeerURL()} {
		if got := served(t, dir, url); got.SerialNumber.Cmp(now.SerialNumber) != 0 {
			t.Errorf("%s serves %x, want %x", url, got.SerialNumber, now.SerialNumber)
		}
	}
	if after := f.state.Get(); after != before {
		t.Errorf("the member was started again: before %+v, after %+v", before, after)
	}
	// A missing record means that the member was removed.
	if _, err := f.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpDelete(key)}, nil); err != nil {
		t.Fatal(err)
	}
	f.record.renewed(t.Context())
	if resp, err := f.client.Get(t.Context(), key); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("the record was written again: %v, %v", resp, err)
	}
}

// setLeaving notes in the record of the member that its removal was decided.
func setLeaving(t *testing.T, f *flow, key string) {
	t.Helper()
	resp, err := f.client.Get(t.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("the record of the member: %v, %v", resp, err)
	}
	rec, err := record.DecodeMember(key, resp.Kvs[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	rec.Leaving = true
	if _, err := f.client.Write(t.Context(), nil, clientv3.OpPut(key, string(record.EncodeMember(rec)))); err != nil {
		t.Fatal(err)
	}
}

package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	memberlist "github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/members"
)

// hall is a cluster of one real member, in this process, which answers joins. The data of
// machines without a process is there too, each below its own prefix.
type hall struct {
	*members.Cluster
	client  *etcd.Client
	joinURL string
	keyPEM  []byte
}

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{Cluster: members.New(t)}
	h.client = h.First.Client()
	var err error
	if h.keyPEM, err = os.ReadFile(filepath.Join(h.First.Dir, pki.CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.joinURL = "https://" + listener.Addr().String()
	server := enrol.NewServer(enrol.Config{
		Client: h.client, PKI: h.First.Dir, Log: slog.New(slog.DiscardHandler), Limits: enrol.Limits{PerAddress: 1e6, InAll: 1e6, Burst: 1e6},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, listener) }) // its error is that ctx ended
	t.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// join asks the hall to add a node. A member without a process never becomes a voter in etcd's eyes,
// so that it gets the key of the CA with the answer, as from an older sidecar.
func (h *hall) join(ctx context.Context, r enrol.Request) (enrol.Answer, error) {
	answer, err := enrol.Join(ctx, r)
	answer.CAKey = h.keyPEM
	return answer, err
}

// dial connects to the client port of the real member.
func (h *hall) dial() (net.Conn, error) {
	cfg, err := pki.ClientTLS(h.First.Dir)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = []string{"h2"}
	return tls.Dial("tcp", strings.TrimPrefix(h.First.ClientURL, "https://"), cfg)
}

// learners returns the members with a peer URL.
func (h *hall) learners(t *testing.T, peerURL string) []etcd.Member {
	t.Helper()
	all, err := h.client.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m etcd.Member) bool { return !slices.Contains(m.PeerURLs, peerURL) })
}

// evict removes the member with a peer URL, as etcd's own tools do.
func (h *hall) evict(t *testing.T, peerURL string) {
	t.Helper()
	for _, m := range h.learners(t, peerURL) {
		if err := h.client.RemoveMember(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// machine is a node with its data directory. Its sidecar takes the real steps on real files. It can be
// killed at each change of the disk and after each step, and its disk loses unsynced changes then.
type machine struct {
	t      *testing.T
	hall   *hall
	cfg    Embedded
	prefix string
	power  bool // a kill is a power failure
	evicts bool // while it is off, the cluster evicts a member that does not vote
	disk   *losingDisk
	voter  uint64 // the ID of the member that voted here; 0: none
	starts int    // of the member by the sidecars until now
	// processEnds is the moment at which the member's process ends once by itself; empty: it does not.
	processEnds string

	promote, promoted chan struct{} // a learner becomes a voter in between: when the sidecar waits for that

	mu     sync.Mutex // mu guards the fields below
	at     int        // the moment of the kill; 0: none
	passed int        // moments until now
	where  string     // it was killed
	end    context.CancelFunc
	dead   bool
}

func newMachine(t *testing.T, h *hall, name string, joins bool) *machine {
	t.Helper()
	m := &machine{t: t, hall: h, prefix: "/" + name + "/"}
	m.cfg = Embedded{DataDir: filepath.Join(t.TempDir(), "data"), Node: name, Address: "127.0.0.1"}
	for _, port := range []*int{&m.cfg.PeerPort, &m.cfg.ClientPort, &m.cfg.JoinPort} {
		*port = freePort(t)
	}
	if joins {
		tok, _, err := token.Create(t.Context(), h.client, token.Spec{CA: h.CA.Hash(), TTL: time.Hour, Uses: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.prefix, m.cfg.Join, m.cfg.Token = members.Prefix, h.joinURL, tok.Text()
	}
	m.disk = &losingDisk{m: m}
	return m
}

// moment is one at which the machine may be killed.
func (m *machine) moment(where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed++
	if !m.dead && m.passed != m.at {
		return
	}
	if !m.dead {
		m.dead, m.where = true, where
		m.end()
	}
	panic(killed{})
}

func (m *machine) killedAt() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.where, m.dead
}

func (m *machine) peerURL() string {
	return datadir.Marker{Address: m.cfg.Address, PeerPort: m.cfg.PeerPort}.PeerURL()
}

// supervise starts a member without a process here.
func (m *machine) supervise(cfg member.Config) supervisor {
	out := newFakeMember(cfg, memberList{m.hall.client, m.hall.First.Member.ClusterID()})
	out.reached = func(moment string) {
		ids, _, begun := readLog(out.wal())
		if moment == votes {
			m.voter = ids.member
		} else if m.voter != 0 {
			m.t.Errorf("the member %x voted here, and etcd begins again", m.voter)
		}
		m.moment("the member: " + moment)
		if moment == m.processEnds {
			m.processEnds = ""
			panic(processKilled{moment})
		}
		if begun || moment == madeDatabase {
			m.disk.keep() // etcd syncs what it writes
		}
		if moment == votes && out.vote != nil {
			close(m.promoted)
		}
	}
	if m.starts++; m.cfg.Join != "" && m.voter == 0 {
		out.vote = func(ctx context.Context) {
			select {
			case <-m.promote:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				panic(killed{}) // it ends as a learner
			}
		}
	}
	out.serve = func() func() {
		f, err := startFront(strings.TrimPrefix(cfg.Spec.ClientURL, "https://"), filepath.Dir(cfg.Spec.CertFile), m.hall.dial)
		if err != nil {
			m.t.Error(err)
			return func() {}
		}
		return f.close
	}
	return out
}

// start starts the sidecar, and returns when it is in its cluster, was killed, or ends with an error.
func (m *machine) start() (err error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	m.end, m.promote, m.promoted = cancel, make(chan struct{}), make(chan struct{})
	cfg, log := m.cfg, slog.New(slog.DiscardHandler)
	client, err := etcd.NewClient(cfg.EtcdConfig(m.prefix))
	if err != nil {
		m.t.Fatal(err)
	}
	shared := newSharer(client, log, Membership{})
	shared.node, shared.own, shared.used, shared.others = cfg.Node, cfg.clientURL(), true, nil
	var problem string
	f := flowOf(newParts(&cfg, client, log, shared, process{
		show: func(p string) { problem = p }, state: event.New(member.State{}), measures: event.New(member.Measures{}),
	}), event.New(false))
	f.open, f.join, f.supervise = m.disk.open, m.hall.join, m.supervise
	defer func() {
		err = errors.Join(err, f.close(), client.Close())
		if ctx.Err() == context.DeadlineExceeded {
			m.t.Fatalf("the sidecar waits: %s, %+v", problem, f.state.Get())
		}
	}()
	_, name, steps := choose(&cfg)
	return m.carryOut(ctx, f, name, append([]step{{"address", awaitAddress}}, steps...))
}

// carryOut takes the steps, with a moment after each.
func (m *machine) carryOut(ctx context.Context, f *flow, name string, steps []step) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			err = errors.New("killed")
		}
	}()
	for i, s := range steps {
		steps[i].run = func(ctx context.Context, f *flow) error {
			if s.name == "voter" && m.voter == 0 {
				close(m.promote)
				select {
				case <-m.promoted:
				case <-ctx.Done():
				}
			}
			err := s.run(ctx, f)
			if err == nil && s.name != "member" { // that one goes on beside the next: its member has moments
				m.moment("after the step " + s.name)
			}
			return err
		}
	}
	return f.carryOut(ctx, name, steps)
}

// arrive starts the sidecar, which is killed at a moment, until it is in its cluster. It reports whether
// there was such a moment.
func (m *machine) arrive(at int) (reached bool) {
	m.t.Helper()
	if reached = m.kill(at); reached {
		m.finish()
	}
	return reached
}

// kill starts the sidecar, and kills it at a moment. If there is no such moment, the node is in its cluster.
func (m *machine) kill(at int) (reached bool) {
	m.t.Helper()
	m.mu.Lock()
	m.at, m.passed, m.where = at, 0, ""
	m.mu.Unlock()
	err := m.start()
	where, dead := m.killedAt()
	m.check(where)
	if !dead {
		if err != nil {
			m.t.Fatal(err)
		}
		return false
	}
	m.mu.Lock()
	m.dead, m.at = false, 0
	m.mu.Unlock()
	if m.power {
		m.disk.lose()
		m.check(where + ", without unsynced changes")
	}
	if m.evicts && m.voter == 0 {
		m.hall.evict(m.t, m.peerURL())
	}
	return true
}

// finish starts the sidecar until it is in its cluster. It may end once before that: the cluster has
// removed its member.
func (m *machine) finish() {
	m.t.Helper()
	err := m.start()
	if err != nil && strings.Contains(err.Error(), "start the sidecar again, with a valid token") {
		err = m.start()
	}
	if err != nil {
		m.t.Fatalf("killed %s: %v", m.where, err)
	}
	m.check(m.where)
}

// check holds what is true at every moment: the disk keeps all that a voter stored, and the
// marker has a working member only after it voted.
func (m *machine) check(when string) {
	m.t.Helper()
	layout := datadir.Layout(m.cfg.DataDir)
	ids, entries, _ := readLog(filepath.Join(layout.Etcd(), "member", "wal"))
	if m.voter != 0 && (ids.member != m.voter || entries == 0) {
		m.t.Errorf("killed %s: the member %x votes, and the disk has the log of %x", when, m.voter, ids.member)
	}
	if marker, err := layout.ReadMarker(); err == nil && marker.Phase == datadir.Member && m.voter == 0 {
		m.t.Errorf("killed %s: the marker has a working member, and none votes", when)
	}
	if found := m.hall.learners(m.t, m.peerURL()); len(found) > 1 {
		m.t.Errorf("killed %s: the cluster has two members of this node: %+v", when, found)
	}
}

// marker returns the marker on the disk.
func (m *machine) marker() datadir.Marker {
	m.t.Helper()
	out, err := datadir.Layout(m.cfg.DataDir).ReadMarker()
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// records returns the records of the members of this node in etcd.
func (m *machine) records() (out []record.Member) {
	m.t.Helper()
	resp, err := m.hall.client.Get(m.t.Context(), keyspace.Under(m.prefix).ClusterMembers(), clientv3.WithPrefix())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		r, err := record.DecodeMember(string(kv.Key), kv.Value)
		if err != nil {
			m.t.Fatal(err)
		}
		if string(r.Node) == m.cfg.Node {
			out = append(out, r)
		}
	}
	return out
}

// wantMember requires that the node is one working member: by its marker, its log and its only record in etcd.
func (m *machine) wantMember(intent datadir.Intent) {
	m.t.Helper()
	marker, layout := m.marker(), datadir.Layout(m.cfg.DataDir)
	ids, _, _ := readLog(filepath.Join(layout.Etcd(), "member", "wal"))
	if marker.Intent != intent || marker.Phase != datadir.Member || marker.MemberID != keyspace.MemberID(m.voter) || ids.member != m.voter {
		m.t.Errorf("killed %s: got %+v, and the log of %x; the member %x voted", m.where, marker, ids.member, m.voter)
	}
	if all := m.records(); len(all) != 1 || all[0].ID != m.voter || all[0].PeerURL != m.peerURL() {
		m.t.Errorf("killed %s: the member is %x, and etcd has the records %+v", m.where, m.voter, all)
	}
	ca, err := pki.ReadAuthority(layout.PKI())
	if err != nil || pki.HashOf(ca).String() != marker.CAHash {
		m.t.Errorf("killed %s: the marker is not of the CA: %v", m.where, err)
	}
	if err := layout.Check(marker, datadir.Expected{Node: m.cfg.Node, Address: m.cfg.Address}); err != nil {
		m.t.Errorf("killed %s: the next start refuses the directory: %v", m.where, err)
	}
}

// becomes makes the node of the machine, a member until now, one whose roles have changed: with the data of the member,
// or with a database that etcd left without a log. It has a copy of the data of a member that it was before.
func (m *machine) becomes(phase datadir.Phase, data bool) {
	m.t.Helper()
	layout := datadir.Layout(m.cfg.DataDir)
	m.followMembers(layout.Members())
	dir, err := datadir.Open(m.cfg.DataDir)
	if err != nil {
		m.t.Fatal(err)
	}
	marker := m.marker()
	marker.Phase = phase
	if !data {
		m.voter = 0
		err = os.RemoveAll(filepath.Join(layout.Etcd(), "member", "wal"))
	}
	if phase == datadir.WithoutMember {
		marker.MemberID = ""
		err = errors.Join(err, os.RemoveAll(layout.Etcd()))
	}
	err = errors.Join(err, os.MkdirAll(filepath.Join(layout.Left(), "member", "snap"), 0o700), dir.WriteMarker(marker), dir.Close())
	if err != nil {
		m.t.Fatal(err)
	}
	m.disk.keep()
}

// followMembers writes the list of the members, as a sidecar does in its cluster.
func (m *machine) followMembers(file string) {
	m.t.Helper()
	list := memberlist.New(memberlist.Config{
		Client: m.hall.client, File: file, Publish: func([]memberlist.Member) {}, PublishRemoved: func([]protocol.MemberRemoval) {},
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = list.Run(ctx) }) // its error is that ctx ended
	err := event.Until(ctx, list.List(), func(all []memberlist.Member) bool { return len(all) > 0 })
	cancel()
	if running.Wait(); err != nil {
		m.t.Fatal(err)
	}
}

// files returns the names of all files of the machine, and the marker.
func (m *machine) files() []string {
	m.t.Helper()
	out := []string{fmt.Sprintf("%+v", m.marker())}
	err := filepath.WalkDir(m.cfg.DataDir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// losingDisk is the disk of a machine: real files, and a copy of them as a power failure leaves them. Files
// of the PKI are always synced, as are their writers' files in package durable.
type losingDisk struct {
	realDisk
	m      *machine
	synced string // the copy; empty: there is none yet
}

func (d *losingDisk) open(path string) (*datadir.Dir, disk, error) {
	dir, err := datadir.Open(path)
	if err != nil {
		return nil, nil, err
	}
	d.realDisk = realDisk{dir}
	if d.synced == "" {
		d.synced = path + ".synced"
		d.keep()
	}
	return dir, d, nil
}

func (d *losingDisk) WriteMarker(marker datadir.Marker) error {
	d.m.moment("before the marker was " + string(marker.Phase))
	err := d.realDisk.WriteMarker(marker)
	d.keep()
	return err
}

// RemoveAll may be interrupted after etcd's log is deleted.
func (d *losingDisk) RemoveAll(path string) error {
	d.m.moment("before a removal")
	if err := d.realDisk.RemoveAll(filepath.Join(path, "member", "wal")); err != nil {
		return err
	}
	d.m.moment("in a removal")
	return d.realDisk.RemoveAll(path)
}

func (d *losingDisk) Rename(from, to string) error {
	d.m.moment("before a move")
	return d.realDisk.Rename(from, to)
}

func (d *losingDisk) SyncDir(path string) error {
	d.m.moment("before a sync")
	err := d.realDisk.SyncDir(path)
	d.keep()
	return err
}

// keep syncs all changes.
func (d *losingDisk) keep() {
	d.m.t.Helper()
	if err := errors.Join(os.RemoveAll(d.synced), copyTree(d.m.cfg.DataDir, d.synced, "")); err != nil {
		d.m.t.Error(err)
	}
}

// lose undoes all changes that were not synced, as a power failure does.
func (d *losingDisk) lose() {
	d.m.t.Helper()
	if d.synced == "" {
		return
	}
	files, err := os.ReadDir(d.m.cfg.DataDir)
	if err != nil {
		d.m.t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == "pki" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.m.cfg.DataDir, f.Name())); err != nil {
			d.m.t.Fatal(err)
		}
	}
	if err := copyTree(d.synced, d.m.cfg.DataDir, "pki"); err != nil {
		d.m.t.Fatal(err)
	}
}

// copyTree copies a directory with its modes, except what has that name in it.
func copyTree(from, to, except string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if name == except {
			return filepath.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			if err := os.MkdirAll(filepath.Join(to, name), 0o700); err != nil {
				return err
			}
			return os.Chmod(filepath.Join(to, name), info.Mode().Perm())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	})
}

// freePort returns a port on loopback that is free.
func freePort(t *testing.T) int {
	t.Helper()
	addr, err := etcdtest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return members.Port("https://" + addr)
}

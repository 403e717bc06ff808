package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/test/members"
)

// fakeMember is an etcd member without a process. It writes a log as etcd does, and obeys the list
// of the members of a real cluster. TestMember holds it to the behavior of a real one.
type fakeMember struct {
	cfg     member.Config
	cluster memberList // that it joins
	state   *event.Value[member.State]
	// reached is called at each change of the disk, and when the member is a voter. The process ends by a panic in it.
	reached func(moment string)
	// vote waits until a learner becomes a voter; nil: it is one at once.
	vote func(context.Context)
	// serve answers clients at the member's URL until close is called; nil: it does not.
	serve func() (stop func())
}

// memberList is the list of the members of a real cluster, with the cluster's ID.
type memberList struct {
	client  *etcd.Client
	cluster uint64
}

// The changes of the disk by a member, and the moment when it votes.
const (
	madeDatabase = "database"
	madeLog      = "log"
	wroteEntry   = "entry"
	votes        = "votes"
)

func newFakeMember(cfg member.Config, joins memberList) *fakeMember {
	return &fakeMember{
		cfg: cfg, cluster: joins, state: cmp.Or(cfg.State, event.New(member.State{})), reached: func(string) {},
	}
}

func (m *fakeMember) State() *event.Value[member.State] { return m.state }

// fakePause is the pause before it starts again, and between two looks at the members.
const fakePause = 20 * time.Millisecond

func (m *fakeMember) Run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			<-ctx.Done() // it died with its sidecar
			err = ctx.Err()
		}
	}()
	if err := m.cfg.Spec.Validate(); err != nil {
		return err
	}
	for {
		err := m.life(ctx)
		event.Update(m.state, func(s member.State) member.State {
			s.Running, s.Ready, s.LastExit = false, false, err.Error()
			return s
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, member.ErrRemoved) {
			return err
		}
		if !backoff.Sleep(ctx, fakePause) {
			return ctx.Err()
		}
		event.Update(m.state, func(s member.State) member.State { s.Restarts++; return s })
	}
}

// processKilled ends a process at a moment. Its sidecar goes on.
type processKilled struct{ moment string }

// life is one process: it returns why it ended.
func (m *fakeMember) life(ctx context.Context) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case processKilled:
			err = fmt.Errorf("killed at: %s", r.moment)
		default:
			panic(r)
		}
	}()
	return m.attempt(ctx)
}

func (m *fakeMember) attempt(ctx context.Context) error {
	if m.cfg.Prepare != nil {
		if err := m.cfg.Prepare(); err != nil {
			return err
		}
	}
	event.Update(m.state, func(s member.State) member.State { s.Running = true; return s })
	ids, entries, begun := readLog(m.wal())
	if !begun {
		var err error
		if ids, err = m.begin(ctx); err != nil {
			return err
		}
	} else if !m.cfg.Spec.Existing && entries == 0 { // nothing in its log names a member
		<-ctx.Done()
		return ctx.Err()
	}
	event.Update(m.state, func(s member.State) member.State {
		s.MemberID, s.ClusterID = ids.member, ids.cluster
		return s
	})
	if removed, err := m.removed(ctx, ids); err != nil {
		return err
	} else if removed {
		return member.ErrRemoved
	}
	if entries == 0 {
		if err := m.writeEntry(ids); err != nil {
			return err
		}
	}
	isReady := func(s member.State) member.State { s.Ready = true; return s }
	if m.vote != nil {
		event.Update(m.state, isReady) // a learner is ready, too
		m.vote(ctx)
	}
	if m.serve != nil {
		defer m.serve()()
	}
	m.reached(votes)
	event.Update(m.state, isReady)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fakePause):
		}
		if removed, err := m.removed(ctx, ids); removed && err == nil {
			return member.ErrRemoved
		}
	}
}

func (m *fakeMember) wal() string { return filepath.Join(m.cfg.Spec.Dir, "member", "wal") }

// begin makes a log. A member that joins gets its ID from the cluster, which must have the members
// in the spec.
func (m *fakeMember) begin(ctx context.Context) (memberIDs, error) {
	if _, err := os.Lstat(m.cfg.Spec.Dir); err == nil {
		panic("etcd begins a log beside the files of another: " + m.cfg.Spec.Dir)
	}
	spec := m.cfg.Spec
	ids := memberIDs{member: hashOf(spec.InitialCluster, spec.Token, "member"), cluster: hashOf(spec.InitialCluster, spec.Token, "cluster")}
	if spec.Existing {
		all, err := m.cluster.client.Members(ctx)
		if err != nil {
			return memberIDs{}, err
		}
		own := slices.IndexFunc(all, func(e etcd.Member) bool { return slices.Contains(e.PeerURLs, spec.PeerURL) })
		if own < 0 || len(all) != len(strings.Split(spec.InitialCluster, ",")) {
			return memberIDs{}, errors.New(member.MembersChanged)
		}
		ids = memberIDs{member: all[own].ID, cluster: m.cluster.cluster}
	}
	snap := filepath.Join(spec.Dir, "member", "snap")
	if err := errors.Join(os.MkdirAll(snap, 0o700), os.WriteFile(filepath.Join(snap, "db"), []byte("a database"), 0o600)); err != nil {
		return memberIDs{}, err
	}
	m.reached(madeDatabase)
	metadata, err := proto.Marshal(&etcdserverpb.Metadata{ClusterID: &ids.cluster, NodeID: &ids.member})
	if err != nil {
		return memberIDs{}, err
	}
	w, err := wal.Create(zap.NewNop(), m.wal(), metadata)
	if err != nil {
		return memberIDs{}, err
	}
	err = w.Close()
	m.reached(madeLog)
	return ids, err
}

// writeEntry writes the first entry: its own if it founds a cluster, else one of the leader.
func (m *fakeMember) writeEntry(ids memberIDs) error {
	w, err := wal.Open(zap.NewNop(), m.wal(), &walpb.Snapshot{})
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	if _, _, _, err := w.ReadAll(); err != nil {
		return err
	}
	one := uint64(1)
	if err := w.Save(&raftpb.HardState{Term: &one, Vote: &ids.member, Commit: &one}, []*raftpb.Entry{{Term: &one, Index: &one}}); err != nil {
		return err
	}
	m.reached(wroteEntry)
	return nil
}

// removed reports whether the cluster that a member has joined does not list it.
func (m *fakeMember) removed(ctx context.Context, ids memberIDs) (bool, error) {
	if ids.cluster != m.cluster.cluster {
		return false, nil
	}
	all, err := m.cluster.client.Members(ctx)
	return err == nil && !slices.ContainsFunc(all, func(e etcd.Member) bool { return e.ID == ids.member }), err
}

func hashOf(texts ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q", texts)
	return h.Sum64()
}

// readLog returns the IDs in a log of etcd, and the number of its entries.
func readLog(dir string) (ids memberIDs, entries int, begun bool) {
	w, err := wal.OpenForRead(zap.NewNop(), dir, &walpb.Snapshot{})
	if err != nil {
		return memberIDs{}, 0, false
	}
	defer func() { _ = w.Close() }()
	text, _, all, err := w.ReadAll()
	var metadata etcdserverpb.Metadata
	if err != nil || proto.Unmarshal(text, &metadata) != nil {
		return memberIDs{}, 0, false
	}
	return memberIDs{member: metadata.GetNodeID(), cluster: metadata.GetClusterID()}, len(all), true
}

// TestMember holds the member without a process to the behavior of the real one.
func TestMember(t *testing.T) {
	for name, start := range map[string]func(member.Config, memberList) supervisor{
		"a process": func(cfg member.Config, _ memberList) supervisor { return newSupervisor(cfg) },
		"without":   func(cfg member.Config, joins memberList) supervisor { return newFakeMember(cfg, joins) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("founds", func(t *testing.T) { checkFounder(t, start) })
			t.Run("joins", func(t *testing.T) { checkJoiner(t, start) })
		})
	}
}

// memberUnderTest is one member, and the cluster that it may join.
type memberUnderTest struct {
	t       *testing.T
	hall    *members.Cluster
	client  *etcd.Client
	new     func(member.Config, memberList) supervisor
	cfg     member.Config
	prepare error // of its preparations; nil: they succeed
	asked   int   // for its preparations
}

func newMemberUnderTest(t *testing.T, start func(member.Config, memberList) supervisor) *memberUnderTest {
	t.Helper()
	m := &memberUnderTest{t: t, hall: members.New(t), new: start}
	m.client = m.hall.First.Client()
	n := m.hall.Node("b")
	file := func(name string) string { return filepath.Join(n.Dir, name) }
	m.cfg = member.Config{Command: []string{os.Args[0], childCommand}, Spec: member.Spec{
		Dir: file("etcd"), Name: "b", PeerURL: n.PeerURL, ClientURL: n.ClientURL, InitialCluster: "b=" + n.PeerURL, Token: "t",
		CAFile: file(pki.CACertFile), CertFile: file(pki.NodeCertFile), KeyFile: file(pki.NodeKeyFile),
	}, Prepare: func() error { m.asked++; return m.prepare }}
	return m
}

// run runs the member until a state is as wanted, and returns that.
func (m *memberUnderTest) run(what string, ok func(member.State) bool) (last member.State, ended error) {
	m.t.Helper()
	s := m.new(m.cfg, memberList{m.client, m.hall.First.Member.ClusterID()})
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx); cancel() }()
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if event.Until(limited, s.State(), func(now member.State) bool { last = now; return ok(now) }) != nil && m.t.Context().Err() == nil && limited.Err() == context.DeadlineExceeded {
		m.t.Errorf("%s: got %+v", what, last)
	}
	cancel()
	ended = <-done
	if now := s.State().Get(); now.Running || now.Ready {
		m.t.Errorf("%s: after the end got %+v", what, now)
	}
	return last, ended
}

func ready(s member.State) bool { return s.Ready }

func checkFounder(t *testing.T, start func(member.Config, memberList) supervisor) {
	m := newMemberUnderTest(t, start)
	m.prepare = errors.New("the disk is full")
	last, _ := m.run("it cannot prepare", func(s member.State) bool { return s.Restarts == 1 })
	if _, _, begun := readLog(filepath.Join(m.cfg.Spec.Dir, "member", "wal")); begun || !strings.Contains(last.LastExit, "full") || m.asked < 1 {
		t.Errorf("without its preparations: got a log %t, %+v", begun, last)
	}
	m.prepare, m.asked = nil, 0
	first, err := m.run("it begins", ready)
	if !errors.Is(err, context.Canceled) || m.asked != 1 {
		t.Errorf("got %v, and was asked for preparations %d times", err, m.asked)
	}
	wantLog(t, m.cfg.Spec.Dir, first)
	m.cfg.Spec.InitialCluster, m.cfg.Spec.Token = m.cfg.Spec.InitialCluster+",x=https://127.0.0.1:1", "another"
	if again, _ := m.run("it goes on", ready); again.MemberID != first.MemberID || again.ClusterID != first.ClusterID || again.MemberID == 0 {
		t.Errorf("with its log: got %+v, before %+v", again, first)
	}
}

// wantLog requires that the log on the disk is that of the member, with an entry.
func wantLog(t *testing.T, dir string, s member.State) {
	t.Helper()
	ids, entries, _ := readLog(filepath.Join(dir, "member", "wal"))
	if ids != (memberIDs{s.MemberID, s.ClusterID}) || entries == 0 {
		t.Errorf("the log has %+v and %d entries, and the member is %+v", ids, entries, s)
	}
}

func checkJoiner(t *testing.T, start func(member.Config, memberList) supervisor) {
	m := newMemberUnderTest(t, start)
	spec := &m.cfg.Spec
	add := func(peerURL string) uint64 {
		id, err := m.client.AddLearner(t.Context(), peerURL)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := add(spec.PeerURL)
	all, err := m.client.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec.InitialCluster, spec.Existing = members.InitialCluster(all, "b", spec.PeerURL), true
	other := add("https://127.0.0.1:1")
	last, _ := m.run("another node was added", func(s member.State) bool { return strings.Contains(s.LastExit, member.MembersChanged) })
	if _, _, begun := readLog(filepath.Join(spec.Dir, "member", "wal")); begun {
		t.Errorf("another node was added: got a log, %+v", last)
	}
	if err := errors.Join(m.client.RemoveMember(t.Context(), other), os.RemoveAll(spec.Dir)); err != nil {
		t.Fatal(err)
	}
	now, err := m.run("it joins", ready)
	if now.MemberID != id || now.ClusterID != m.hall.First.Member.ClusterID() || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v, want the member %x", now, err, id)
	}
	wantLog(t, spec.Dir, now)
	if err := m.client.RemoveMember(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := m.run("it was removed", func(member.State) bool { return false }); !errors.Is(err, member.ErrRemoved) {
		t.Errorf("it was removed while off: got %v", err)
	}
}

// front serves the clients of a member without a process: it passes them on to a real one.
type front struct {
	listener net.Listener
	to       func() (net.Conn, error)
	mu       sync.Mutex // mu guards conns and closed
	conns    []net.Conn
	closed   bool
	running  sync.WaitGroup
}

// startFront listens with the certificate in a directory, which is read for each connection.
func startFront(addr, dir string, to func() (net.Conn, error)) (*front, error) {
	listener, err := tls.Listen("tcp", addr, &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile))
		return &pair, err
	}})
	if err != nil {
		return nil, err
	}
	f := &front{listener: listener, to: to}
	f.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			f.running.Go(func() { f.pass(conn) })
		}
	})
	return f, nil
}

func (f *front) pass(conn net.Conn) {
	defer conn.Close()
	there, err := f.to()
	if err != nil {
		return
	}
	defer there.Close()
	f.mu.Lock()
	closed := f.closed
	f.conns = append(f.conns, conn, there)
	f.mu.Unlock()
	if closed {
		return
	}
	f.running.Go(func() { _, _ = io.Copy(conn, there); _ = conn.Close() }) // the client sees the end
	_, _ = io.Copy(there, conn)
}

// close ends all connections.
func (f *front) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.closed = true
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

package cluster

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// answerFor returns the answer of a member to a node that joins, with a new CA.
func answerFor(t *testing.T, f *flow, id uint64) enrol.Answer {
	t.Helper()
	if err := datadir.MakeDir(f.dir.PKI()); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA("c1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.EnsureKeyPair(f.dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.NewRequest(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue(request, f.cfg.Node, f.cfg.Address)
	if err != nil {
		t.Fatal(err)
	}
	return enrol.Answer{Cluster: "c1", EtcdClusterID: 0xc1, MemberID: id, CA: ca.Certificate(), Certificate: certificate}
}

// The answer may name another member than the one whose data an earlier attempt left: that one
// was removed. etcd must not begin with its data.
func TestEnrolled_asAnother(t *testing.T) {
	f := newFlow(t, func(string) {})
	if err := openDirectory(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	d := newBrittleDisk()
	d.place(datadir.Marker{Intent: datadir.Join, Phase: datadir.Enrolled, MemberID: "a1", Address: "127.0.0.1"})
	d.write("a1")
	f.disk, f.marker = d, d.marker
	for _, as := range []struct {
		id   uint64
		kept bool
	}{{0xa1, true}, {0xa2, false}} {
		if err := f.enrolled(answerFor(t, f, as.id)); err != nil {
			t.Fatal(err)
		}
		if d.EtcdBegun() != as.kept {
			t.Errorf("as the member %x: got the data kept %t, want %t", as.id, d.EtcdBegun(), as.kept)
		}
	}
	if f.marker.MemberID != "a2" || d.marker.MemberID != "a2" {
		t.Errorf("got %+v, and on the disk %+v", f.marker, d.marker)
	}
}

// A node that was added, and whose etcd has a log, goes on without a token: it may be used up. Without a
// log it asks again.
func TestEnrolNode_again(t *testing.T) {
	f := newFlow(t, func(string) {})
	if err := openDirectory(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	d := newBrittleDisk()
	f.disk, f.marker = d, datadir.Marker{Intent: datadir.Join, Phase: datadir.Enrolled, MemberID: "a1", Address: "127.0.0.1"}
	if err := enrolNode(t.Context(), f); err == nil || !strings.Contains(err.Error(), "set --join and --token again") {
		t.Errorf("without a log: got %v", err)
	}
	d.write("a1")
	if err := enrolNode(t.Context(), f); err != nil {
		t.Errorf("with a log: got %v", err)
	}
}

// A learner that waits for its vote names the node whose sidecar asks for it.
func TestWaitsForVote(t *testing.T) {
	members := []etcd.Member{{ID: 0xa1, Name: "a"}, {ID: 0xa2}}
	for leader, want := range map[uint64]string{0xa1: `node "a"`, 0xa2: "beside etcd's leader", 0: "beside etcd's leader"} {
		if got := waitsForVote(leader, members); !strings.Contains(got, want) || !strings.Contains(got, "10s") {
			t.Errorf("the leader %x: got %s", leader, got)
		}
	}
}

// newcomer is a node that joins, on a brittle disk, and the cluster that adds it.
type newcomer struct {
	t      *testing.T
	f      *flow
	disk   *brittleDisk
	member uint64 // the ID of the member that the cluster lists
	votes  bool
}

// attempt takes the steps of a join that change the disk, from the state of the disk on. It reports
// whether it was killed.
func (j *newcomer) attempt() (ended bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			ended = true
		}
	}()
	f, d := j.f, j.disk
	f.marker = d.marker
	must := func(err error) {
		if err != nil {
			j.t.Fatal(err)
		}
	}
	if f.marker.Intent == "" {
		must(f.writeMarker(func(m *datadir.Marker) {
			m.Address, m.Intent, m.Phase = "127.0.0.1", datadir.Join, datadir.Begun
		}))
	}
	// A node with a log asks again while the members do not contact it.
	if f.marker.Phase != datadir.Member && f.marker.MemberID != keyspace.MemberID(j.member) || !d.EtcdBegun() {
		must(f.enrolled(answerFor(j.t, f, j.member)))
	}
	must(f.clearUnbegun())
	must(f.prepareMember()) // before the process starts
	if !d.EtcdBegun() {
		if d.Present(d.Etcd()) {
			j.t.Errorf("a new member begins with the files of another: %v", d.now)
		}
		d.begin()
		d.count()
		d.write(f.marker.MemberID)
	}
	j.check("started")
	d.count()
	j.votes = true
	d.count()
	must(f.settle(memberIDs{member: j.member, cluster: 0xc1}))
	return false
}

// check holds what is true at every moment: the process runs with the data of its own member, and the
// disk keeps all that a voter stored.
func (j *newcomer) check(when string) {
	j.t.Helper()
	life, own := j.disk.lives[j.disk.Etcd()], keyspace.MemberID(j.member)
	if (j.votes || when == "started") && life != own {
		j.t.Errorf("%s: the member is %s, and the data of %q", when, own, life)
	}
	if j.disk.marker.Phase == datadir.Member && !j.votes {
		j.t.Errorf("%s: the marker has a working member, and none votes", when)
	}
}

// A node that joins is killed at each moment, and the machine loses its power there. Until it votes,
// the cluster may evict it meanwhile, and adds it as another member then.
func TestJoin_killedAnywhere(t *testing.T) {
	f := newFlow(t, func(string) {})
	if err := openDirectory(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct{ power, evicted bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		moments := 0
		for (&newcomer{t: t, f: f, member: 0xa1}).arrive(moments+1, way.power, way.evicted) {
			moments++
		}
		if t.Logf("%+v: %d moments", way, moments); moments < 8 {
			t.Errorf("%+v: got %d moments, want at least one for each operation", way, moments)
		}
	}
}

// arrive joins, and is killed at one moment. It reports whether there was such a moment.
func (j *newcomer) arrive(at int, power, evicted bool) (reached bool) {
	j.disk = newBrittleDisk()
	passed := 0
	j.disk.kill = func() bool { passed++; return passed == at }
	j.f.disk = j.disk
	for j.attempt() {
		reached = true
		if power {
			j.disk.lose()
		}
		j.check("killed")
		if evicted && !j.votes {
			j.member++
		}
	}
	if j.check("at the end"); j.disk.marker.Phase != datadir.Member || j.disk.marker.MemberID != keyspace.MemberID(j.member) {
		j.t.Errorf("killed at %d, power lost %t, evicted %t: got %+v", at, power, evicted, j.disk.marker)
	}
	return reached
}

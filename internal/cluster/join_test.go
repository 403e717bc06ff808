package cluster

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
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

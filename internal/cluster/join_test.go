package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
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

// waitingMember is a member whose process runs, and does not become ready.
type waitingMember struct{ *fakeMember }

func newWaitingMember() supervisor {
	out := waitingMember{newFakeMember(member.Config{}, memberList{})}
	out.state.Set(member.State{Running: true})
	return out
}

// of makes it the member of a resident.
func (m *memberRun) of(r *resident) {
	m.done = make(chan struct{})
	m.stop = func() { close(m.done) }
	r.run.Set(m)
}

// newWaitingJoin returns the flow of a node that joins as the member a1, which has a log.
func newWaitingJoin(t *testing.T, shown func(string)) (*flow, *brittleDisk) {
	t.Helper()
	f := newFlow(t, shown)
	if err := openDirectory(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := datadir.MakeDir(f.dir.PKI()); err != nil {
		t.Fatal(err)
	}
	d := newBrittleDisk()
	d.place(datadir.Marker{Intent: datadir.Join, Phase: datadir.Enrolled, MemberID: "a1", Address: "127.0.0.1"})
	d.write("a1")
	f.disk, f.marker = d, d.marker
	f.cfg.Join, f.cfg.Token = "https://127.0.0.1:1", token.Token{ID: "bcdfgh"}.Text()
	return f, d
}

// toldGone is the answer to a node that an operator removed.
var toldGone = &enrol.RefusedError{Status: http.StatusGone, Detail: "was removed"}

// A member that waits for the others asks whether it is one of them still. Only a removal by an operator ends
// the join, and only another member in its place its data.
func TestStillJoining(t *testing.T) {
	for name, tc := range map[string]struct {
		id                uint64
		err               error
		ends, again, kept bool
	}{
		"it is the same member":   {0xa1, nil, false, false, true},
		"it is another one":       {0xa2, nil, true, true, false},
		"an operator removed it":  {0, toldGone, true, false, true},
		"its token has expired":   {0, &enrol.RefusedError{Status: http.StatusForbidden, Detail: "expired"}, false, false, true},
		"the member does not run": {0, errors.New("no route"), false, false, true},
	} {
		shown := ""
		f, d := newWaitingJoin(t, func(problem string) { shown = problem })
		f.join = func(context.Context, enrol.Request) (enrol.Answer, error) {
			if tc.err != nil {
				return enrol.Answer{}, tc.err
			}
			return answerFor(t, f, tc.id), nil
		}
		(&memberRun{supervisor: newWaitingMember()}).of(f.resident)
		err := f.stillJoining(t.Context())
		if _, again := errors.AsType[transientError](err); (err != nil) != tc.ends || again != tc.again || errors.Is(tc.err, toldGone) && !errors.Is(err, toldGone) {
			t.Errorf("%s: got %v", name, err)
		}
		if d.EtcdBegun() != tc.kept || f.runs() != tc.kept {
			t.Errorf("%s: the disk has %v, and the process runs: %t", name, d.lives, f.runs())
		}
		if waits := tc.err != nil && !tc.ends; strings.Contains(shown, "is not known") != waits {
			t.Errorf("%s: the status has %q", name, shown)
		}
	}
}

// A new member that does not become ready asks again and again, until it learns that it was removed.
func TestAwaitJoinedMember_asks(t *testing.T) {
	f, _ := newWaitingJoin(t, func(string) {})
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		f.join = func(context.Context, enrol.Request) (enrol.Answer, error) {
			if asked++; asked < 3 {
				return answerFor(t, f, 0xa1), nil
			}
			return enrol.Answer{}, toldGone
		}
		(&memberRun{supervisor: newWaitingMember()}).of(f.resident)
		defer f.endMember()
		if err := awaitJoinedMember(t.Context(), f); !errors.Is(err, toldGone) || asked != 3 {
			t.Errorf("got %v, and it asked %d times", err, asked)
		}
	})
}

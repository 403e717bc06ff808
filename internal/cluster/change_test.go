package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// village is the outside of a node in a test: the state of its member in etcd.
type village struct {
	t        *testing.T
	home     *resident
	disk     *brittleDisk
	member   uint64 // the ID of the member; 0: none is listed
	votes    bool
	last     uint64 // the last ID that was given
	forgot   uint64
	client   *etcd.Client // reaches nothing; shared sets its servers
	shared   *sharer
	finished int   // calls until now
	adds     int   // questions to be added
	silent   error // why no majority answers; nil: one does
	refuses  error // why the process does not start; nil: it does
	refused  bool  // an operator removed a member with its key
	ended    []error
	kill     func() bool
}

// count ends the run before an action outside, or right after it.
func (v *village) count() {
	v.finished++
	if v.kill() {
		panic(killed{})
	}
}

func (v *village) same(context.Context) error { return nil }

func (v *village) listed(_ context.Context, id string) (listing, error) {
	if v.silent != nil {
		return listing{}, v.silent
	}
	own, known := keyspace.ParseMemberID(id)
	out := listing{listed: membership.ListedLearner, removed: v.refused}
	switch {
	case v.member == 0 || known && own != v.member:
		out.listed = membership.NotListed
	case v.votes:
		out.listed = membership.ListedVoter
	}
	return out, nil
}

func (v *village) add(context.Context) (quorum.Added, error) {
	v.count()
	v.adds++
	if v.member == 0 {
		v.last++
		v.member, v.votes = v.last, false
	}
	v.count()
	return quorum.Added{ID: v.member, Members: []etcd.Member{{ID: v.member}}}, nil
}

func (v *village) start(_ context.Context, joining []etcd.Member) error {
	v.count()
	if v.refuses != nil {
		return v.refuses
	}
	if err := v.home.prepareMember(); err != nil { // as the supervisor does before each start
		v.t.Error(err)
	}
	if joining != nil {
		if v.disk.Present(v.disk.Etcd()) {
			v.t.Errorf("a new member begins with what is there: %v", v.disk.now)
		}
		v.disk.begin()
		v.count()
		v.disk.write(v.home.marker.MemberID)
	}
	if got := v.disk.lives[v.disk.Etcd()]; v.member != 0 && got != keyspace.MemberID(v.member) {
		v.t.Errorf("the member %x runs with the data of %s", v.member, got)
	}
	done := make(chan struct{})
	v.home.run.Set(&memberRun{stop: func() { close(done) }, done: done})
	v.count()
	return nil
}

func (v *village) vote(context.Context) error {
	v.count()
	v.votes = true
	v.count()
	return nil
}

func (v *village) ready(context.Context) (memberIDs, error) {
	v.count()
	return memberIDs{member: v.member, cluster: 1}, nil
}

func (v *village) remove(_ context.Context, id string) error {
	v.count()
	v.shared.useOthers()
	if own, known := keyspace.ParseMemberID(id); known && own == v.member {
		v.member, v.votes = 0, false
	}
	v.count()
	return nil
}

func (v *village) forget(_ context.Context, id uint64) error {
	v.count()
	v.shared.useOthers()
	v.forgot = id
	return nil
}

// newVillage returns the outside of a node with that marker.
func newVillage(t *testing.T, m datadir.Marker) *village {
	t.Helper()
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	v := &village{t: t, disk: newBrittleDisk(), client: client, kill: func() bool { return false }}
	v.disk.place(m)
	return v
}

// begin returns the change of a node whose sidecar just started: it knows the state of the disk.
func (v *village) begin() *change {
	v.shared = newSharer(v.client, slog.New(slog.DiscardHandler), Membership{})
	v.shared.node, v.shared.own, v.shared.used = "n", "http://127.0.0.1:2", true
	v.home = &resident{disk: v.disk, run: event.New[*memberRun](nil), adopted: func(m datadir.Marker) { v.shared.follow(v.disk.Layout, m) }}
	v.home.adopt(v.disk.marker)
	return &change{resident: v.home, outside: v, stopped: func() {}, ended: func(err error) { v.ended = append(v.ended, err) }}
}

// check holds the claims that must be true at every moment: the disk keeps all that a voter stored.
func (v *village) check(when string) {
	v.t.Helper()
	if v.votes && v.disk.lives[v.disk.Etcd()] != keyspace.MemberID(v.member) {
		v.t.Errorf("%s: the member %x votes, and the disk has %v", when, v.member, v.disk.lives)
	}
	if v.disk.marker.Phase == datadir.Member && !v.votes {
		v.t.Errorf("%s: the marker has a working member, and none votes", when)
	}
	if v.disk.marker.Phase == datadir.WithoutMember && v.disk.Present(v.disk.Etcd()) {
		v.t.Errorf("%s: the node has no member, and etcd has data", when)
	}
	if v.disk.marker.Phase == datadir.WithoutMember && v.disk.marker.MemberID != "" {
		v.t.Errorf("%s: the node has no member, and the marker is %+v", when, v.disk.marker)
	}
}

// settleSteps is more than a node needs to arrive.
const settleSteps = 30

// arrive takes steps until there is none. It reports whether it was ended in between.
func (v *village) arrive(c *change, wanted bool) (ended bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			ended = true
		}
	}()
	for range settleSteps {
		facts, err := c.facts(v.t.Context())
		if err != nil {
			v.t.Fatal(err)
		}
		facts.Known, facts.Wanted = true, wanted
		next := membership.NextStep(facts)
		if next == membership.AsIs {
			return false
		}
		if err := c.take(v.t.Context(), next); err != nil {
			v.t.Fatalf("%s: %v", next, err)
		}
		v.check("after " + next.String())
		if phase := v.disk.marker.Phase; v.shared.used != (phase == datadir.Member) && phase != datadir.Leaving {
			v.t.Errorf("after %s: the member is %s, and the node uses it: %t", next, phase, v.shared.used)
		}
	}
	v.t.Fatalf("it does not arrive: %+v", v.disk.marker)
	return false
}

// A node becomes a member, leaves, and becomes one again. It is killed at each moment, and the
// machine loses its power there: it goes on from the state of the disk, and no data is lost.
func TestChange_killedAnywhere(t *testing.T) {
	for _, power := range []bool{false, true} {
		moments := 0
		for at := 1; ; at++ {
			v, reached := walk(t, at, power)
			if !reached {
				break
			}
			moments++
			if v.disk.marker.Phase != datadir.Member || !v.votes {
				t.Errorf("killed at %d: got %+v", at, v)
			}
		}
		if t.Logf("power lost: %t, %d moments", power, moments); moments < 25 {
			t.Errorf("got %d moments, want at least one for each operation", moments)
		}
	}
}

// walk goes all ways, and is killed at one moment. It reports whether there was such a moment.
func walk(t *testing.T, at int, power bool) (v *village, reached bool) {
	t.Helper()
	v = newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.WithoutMember})
	v.last = 0xa0
	passed := 0
	v.kill = func() bool { passed++; return passed == at }
	v.disk.kill = v.kill
	c := v.begin()
	for _, wanted := range []bool{true, false, true} {
		for v.arrive(c, wanted) {
			reached = true
			if power {
				v.disk.lose()
			}
			v.check(fmt.Sprintf("killed at %d", at))
			c = v.begin()
		}
	}
	return v, reached
}

// Data that a member left is moved away only if the member is not listed, asked at that moment:
// the step may follow from an older list.
func TestChange_movesNothingListed(t *testing.T) {
	v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.Leaving, MemberID: "a1"})
	v.member, v.votes = 0xa1, true
	v.disk.write(keyspace.MemberID(v.member))
	c := v.begin()
	if err := c.take(t.Context(), membership.MoveData); err == nil || !v.disk.EtcdBegun() {
		t.Errorf("got %v, and the disk %v", err, v.disk.lives)
	}
	v.member, v.votes = 0, false
	if err := c.take(t.Context(), membership.MoveData); err != nil || v.disk.EtcdBegun() || !v.disk.Present(v.disk.Left()) {
		t.Errorf("got %v, and the disk %v", err, v.disk.lives)
	}
	// The same step again finds it done, and does not delete what was moved.
	if err := c.take(t.Context(), membership.MoveData); err != nil || !v.disk.Present(v.disk.Left()) {
		t.Errorf("again: got %v, and the disk %v", err, v.disk.lives)
	}
}

// The data of a member that was removed is moved away only when its process has ended.
func TestChange_movesAfterTheEnd(t *testing.T) {
	v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.WithoutMember})
	v.disk.write("a1")
	c := v.begin()
	done := make(chan struct{})
	c.run.Set(&memberRun{stop: func() {
		if !v.disk.EtcdBegun() {
			t.Error("the data was moved while the process ran")
		}
		close(done)
	}, done: done})
	if err := c.take(t.Context(), membership.MoveData); err != nil || c.runs() || v.disk.EtcdBegun() {
		t.Errorf("got %v, it runs: %t, and the disk %v", err, c.runs(), v.disk.lives)
	}
}

// A member whose etcd did not begin asks for the members again: others may have been added.
func TestChange_asksAgain(t *testing.T) {
	v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.Adding})
	v.last = 0xa0
	c := v.begin()
	if err := c.take(t.Context(), membership.AddLearner); err != nil || c.joining == nil {
		t.Fatalf("got %v, and the members %v", err, c.joining)
	}
	v.refuses = transient(errors.New("another member was added"))
	if err := c.take(t.Context(), membership.StartMember); err == nil || c.joining != nil || c.current() != nil {
		t.Errorf("got %v, and the members %v", err, c.joining)
	}
	v.refuses = nil
	if err := c.take(t.Context(), membership.StartMember); err != nil || v.adds != 2 {
		t.Errorf("got %v, asked %d times", err, v.adds)
	}
}

// A process that has ended because its member was removed proves that: a node that leaves goes on
// although no majority answers it.
func TestChange_knowsItsEnd(t *testing.T) {
	v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.Leaving, MemberID: "a1"})
	v.silent = errors.New("no answer")
	v.disk.write("a1")
	c := v.begin()
	if _, err := c.facts(t.Context()); err == nil {
		t.Error("the members have not answered: got no error")
	}
	done := make(chan struct{})
	close(done)
	c.run.Set(&memberRun{stop: func() {}, done: done, err: member.ErrRemoved})
	for range 2 { // also when the process is forgotten
		facts, err := c.facts(t.Context())
		if err != nil || facts.Listed != membership.NotListed {
			t.Errorf("got %+v, %v", facts, err)
		}
		c.endMember()
	}
	c.marker.MemberID = "a2"
	if _, err := c.facts(t.Context()); err == nil {
		t.Error("of another member: got no error")
	}
}

// The records of a member are deleted before the marker forgets its ID.
func TestChange_forgetsItsRecords(t *testing.T) {
	v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: datadir.Leaving, MemberID: "a1"})
	if err := v.begin().take(t.Context(), membership.EndLeaving); err != nil || v.forgot != 0xa1 || v.disk.marker.MemberID != "" {
		t.Errorf("got %v, the records of %x were deleted, and the marker is %+v", err, v.forgot, v.disk.marker)
	}
}

// A node that an operator removed for good ends, whatever it was doing: its key is refused for ever.
func TestChange_removedForGood(t *testing.T) {
	for name, marker := range map[string]datadir.Marker{
		"leaves, and has its data": {Intent: datadir.Join, Phase: datadir.Leaving, MemberID: "a1"},
		"is added, and has no ID":  {Intent: datadir.Join, Phase: datadir.Adding},
	} {
		v := newVillage(t, marker)
		v.refused = true
		if marker.MemberID != "" {
			v.disk.write(marker.MemberID)
		}
		c := v.begin()
		if v.arrive(c, true); v.disk.marker.Phase != datadir.Removed || v.disk.EtcdBegun() || v.adds != 0 {
			t.Errorf("%s: got the marker %+v and %d attempts to be added", name, v.disk.marker, v.adds)
		}
		if len(v.ended) != 1 || !errors.Is(v.ended[0], member.ErrRemoved) || !strings.Contains(v.ended[0].Error(), `delete "/data" and start with a new token`) {
			t.Errorf("%s: ended with %v", name, v.ended)
		}
	}
}

// A working member that is not listed any more ends its node, if an operator removed it. Its process may not notice.
func TestChange_endIfRemoved(t *testing.T) {
	list := []members.Member{{ID: "b1"}}
	for name, tt := range map[string]struct {
		phase   datadir.Phase
		list    []members.Member
		listed  uint64
		refused bool
		ends    bool
	}{
		"removed for good":       {datadir.Member, list, 0, true, true},
		"still in the list":      {datadir.Member, append(list, members.Member{ID: "a1"}), 0, true, false},
		"the list is not known":  {datadir.Member, nil, 0, true, false},
		"etcd has it":            {datadir.Member, list, 0xa1, true, false},
		"no operator removed it": {datadir.Member, list, 0, false, false},
		"it leaves by itself":    {datadir.Leaving, list, 0, true, false},
	} {
		v := newVillage(t, datadir.Marker{Intent: datadir.Join, Phase: tt.phase, MemberID: "a1"})
		v.member, v.votes, v.refused = tt.listed, tt.listed != 0, tt.refused
		c := v.begin()
		if err := c.endIfRemoved(t.Context(), tt.list); err != nil || (len(v.ended) == 1) != tt.ends || (v.disk.marker.Phase == datadir.Removed) != tt.ends {
			t.Errorf("%s: got %v, ended with %v, and the marker %+v", name, err, v.ended, v.disk.marker)
		}
		v.silent = errors.New("no answer")
		if err := v.begin().endIfRemoved(t.Context(), list); (err != nil) != (v.disk.marker.Phase == datadir.Member) {
			t.Errorf("%s: no majority answers: got %v", name, err)
		}
	}
}

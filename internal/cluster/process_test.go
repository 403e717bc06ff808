package cluster

import (
	"errors"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// etcd begins with exactly the members that the cluster has: its own once, and others that have not
// reported a name yet, under one of their own.
func TestInitialCluster(t *testing.T) {
	own := datadir.Marker{Node: "b", Address: "10.0.0.2", PeerPort: 8089, MemberID: "b1"}
	joining := []etcd.Member{
		{ID: 0xa1, Name: "a", PeerURLs: []string{"https://10.0.0.1:8089", "https://10.1.0.1:8089"}},
		{ID: 0xb1, PeerURLs: []string{"https://10.0.0.2:8089"}},
		{ID: 0xc1, PeerURLs: []string{"https://10.0.0.3:8089"}},
		{ID: 0xd1, Name: "b", PeerURLs: []string{"https://10.0.0.4:8089"}},
		{ID: 0xe1, Name: "e"},
	}
	const want = "b=https://10.0.0.2:8089,a=https://10.0.0.1:8089,a=https://10.1.0.1:8089,member-c1=https://10.0.0.3:8089,member-d1=https://10.0.0.4:8089"
	if got := initialCluster(own, joining); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := initialCluster(own, nil); got != "b=https://10.0.0.2:8089" {
		t.Errorf("alone: got %s", got)
	}
}

// A member that ended without a log asks for the members again. One with a log is only started again: it may
// have voted.
func TestProcess_didNotBegin(t *testing.T) {
	d := newBrittleDisk()
	p := &process{resident: &resident{disk: d}}
	if err := p.didNotBegin(member.State{Running: true}); err != nil {
		t.Errorf("it runs: got %v", err)
	}
	err := p.didNotBegin(member.State{LastExit: "members have changed"})
	if _, again := errors.AsType[transientError](err); !again {
		t.Errorf("without a log: got %v", err)
	}
	d.write("a1")
	if err := p.didNotBegin(member.State{LastExit: "killed"}); err != nil {
		t.Errorf("with a log: got %v", err)
	}
}

package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/keyspace"
)

// atEachMoment runs try with each moment of a kill, without a power failure and with one. try reports
// whether there was such a moment.
func atEachMoment(t *testing.T, least int, try func(name string, power bool, at int) (reached bool)) {
	t.Helper()
	for _, power := range []bool{false, true} {
		began, at := time.Now(), 1
		for try(fmt.Sprintf("n%d%t", at, power), power, at) && !t.Failed() {
			at++
		}
		if t.Logf("power lost: %t, %d moments, %s", power, at-1, time.Since(began)); at <= least {
			t.Errorf("got %d moments, want at least %d", at-1, least)
		}
	}
}

// A node that creates its cluster is killed at each moment, and goes on from the state of the disk. There is
// one cluster then: that of the first marker on the disk.
func TestCreate_killedAnywhere(t *testing.T) {
	h := newHall(t)
	atEachMoment(t, 15, func(name string, power bool, at int) bool {
		m := newMachine(t, h, name, false)
		m.power = power
		reached := m.kill(at)
		first, err := datadir.Layout(m.cfg.DataDir).ReadMarker()
		if err != nil {
			first = datadir.Marker{}
		}
		if reached {
			m.finish()
		}
		m.wantMember(datadir.Create)
		resp, err := h.client.Get(t.Context(), keyspace.Under(m.prefix).Cluster())
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("killed %s: the cluster's record: %v, %v", m.where, resp, err)
		}
		marker := m.marker()
		if first.Cluster != "" && first.Cluster != marker.Cluster {
			t.Errorf("killed %s: it began the cluster %s, and is in %s", m.where, first.Cluster, marker.Cluster)
		}
		if r, err := record.DecodeCluster(resp.Kvs[0].Value); err != nil || r.ID != marker.Cluster || r.CA.String() != marker.CAHash {
			t.Errorf("killed %s: the record is %+v, and the marker %+v: %v", m.where, r, marker, err)
		}
		return reached
	})
}

// The process of a new member is killed at each of its moments, and its sidecar goes on: it starts the process
// again, and deletes before that what an etcd without a log has left.
func TestWays_processKilled(t *testing.T) {
	h := newHall(t)
	for _, moment := range []string{madeDatabase, madeLog, wroteEntry, votes} {
		for intent, joins := range map[datadir.Intent]bool{datadir.Create: false, datadir.Join: true} {
			m := newMachine(t, h, fmt.Sprintf("p%s%t", moment, joins), joins)
			m.processEnds = moment
			if m.arrive(0); m.processEnds != "" {
				t.Errorf("%s: the process was not killed when it had %s", intent, moment)
			}
			m.wantMember(intent)
			h.evict(t, m.peerURL())
		}
	}
}

// A node that joins is killed at each moment. Until it votes, the cluster may evict it meanwhile, and adds it as
// another member then. There is one member of the node at the end.
func TestJoin_killedAnywhere(t *testing.T) {
	h := newHall(t)
	for _, evicts := range []bool{false, true} {
		var off []*machine // that do not vote; etcd gives a node another ID only in another second
		atEachMoment(t, 20, func(name string, power bool, at int) bool {
			m := newMachine(t, h, fmt.Sprintf("%s%t", name, evicts), true)
			m.power, m.evicts = power, evicts
			reached := m.kill(at)
			switch {
			case !reached:
				m.wantJoined()
			case evicts && m.voter == 0:
				off = append(off, m)
			default:
				m.finish()
				m.wantJoined()
			}
			return reached
		})
		for _, m := range off {
			m.finish()
			m.wantJoined()
		}
	}
}

// wantJoined requires that the node is one member of the hall, and evicts it: the place is for the next one.
func (m *machine) wantJoined() {
	m.t.Helper()
	m.wantMember(datadir.Join)
	if found := m.hall.learners(m.t, m.peerURL()); len(found) != 1 || found[0].ID != m.voter {
		m.t.Errorf("killed %s: the member %x voted, and the cluster has %+v", m.where, m.voter, found)
	}
	m.hall.evict(m.t, m.peerURL())
}

// A member that starts again is killed at each moment, with a certificate that is due and without its record
// in etcd. It goes on as the same member, with the same data.
func TestRestart_killedAnywhere(t *testing.T) {
	h := newHall(t)
	machines := map[bool]*machine{}
	for _, power := range []bool{false, true} {
		m := newMachine(t, h, fmt.Sprintf("r%t", power), false)
		m.power = power
		m.arrive(0)
		machines[power] = m
	}
	atEachMoment(t, 8, func(_ string, power bool, at int) bool {
		m := machines[power]
		before, pkiDir := m.marker(), datadir.Layout(m.cfg.DataDir).PKI()
		due := writeCertificate(t, pkiDir, time.Now().Add(60*24*time.Hour))
		if _, err := h.client.Txn(t.Context(), nil, []clientv3.Op{clientv3.OpDelete(keyspace.Under(m.prefix).ClusterMember(m.voter))}, nil); err != nil {
			t.Fatal(err)
		}
		reached := m.arrive(at)
		m.wantMember(datadir.Create)
		if now := m.marker(); now != before {
			t.Errorf("killed %s: got the marker %+v, before %+v", m.where, now, before)
		}
		now, err := pki.ReadCertificate(pkiDir)
		if err != nil || now.SerialNumber.Cmp(due.SerialNumber) == 0 || m.records()[0].Serial != now.SerialNumber.Text(16) {
			t.Errorf("killed %s: the certificate is %v, the due one %v, and the record %+v: %v", m.where, now.SerialNumber, due.SerialNumber, m.records(), err)
		}
		return reached
	})
}

// A node that becomes a member, leaves, or has none is killed at each moment of its start. A member with data
// runs again, because its vote may be needed. Nothing is deleted.
func TestReturn_killedAnywhere(t *testing.T) {
	h := newHall(t)
	for _, tc := range []struct {
		phase datadir.Phase
		data  bool
	}{{datadir.Leaving, true}, {datadir.Adding, true}, {datadir.Adding, false}, {datadir.Leaving, false}, {datadir.WithoutMember, false}} {
		t.Run(fmt.Sprintf("%s, with data %t", tc.phase, tc.data), func(t *testing.T) {
			m := newMachine(t, h, fmt.Sprintf("%s%t", tc.phase, tc.data), true)
			m.arrive(0)
			m.becomes(tc.phase, tc.data)
			before := m.files()
			atEachMoment(t, 5, func(_ string, power bool, at int) bool {
				m.power, m.starts = power, 0
				reached := m.arrive(at)
				if (m.starts > 0) != tc.data {
					t.Errorf("killed %s: the member was started %d times", m.where, m.starts)
				}
				if after := m.files(); !slices.Equal(after, before) {
					t.Errorf("killed %s: the files are %q, before %q", m.where, after, before)
				}
				return reached
			})
			h.evict(t, m.peerURL())
		})
	}
}

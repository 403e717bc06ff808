package cluster

import (
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// The directory decides about the way, and --join only while there is nothing in it.
func TestChoose(t *testing.T) {
	const join = "https://10.0.0.1:8087"
	for name, tc := range map[string]struct {
		marker *datadir.Marker
		join   string
		want   State
		way    string
	}{
		"nothing":                   {nil, "", CreatingCluster, "create"},
		"nothing, and --join":       {nil, join, JoiningCluster, "join"},
		"an interrupted creation":   {&datadir.Marker{Intent: datadir.Create, Phase: datadir.Begun}, join, CreatingCluster, "create"},
		"an interrupted join":       {&datadir.Marker{Intent: datadir.Join, Phase: datadir.Enrolled}, "", JoiningCluster, "join"},
		"a member":                  {&datadir.Marker{Intent: datadir.Join, Phase: datadir.Member}, join, RestartingMember, "restart"},
		"one that was removed":      {&datadir.Marker{Intent: datadir.Join, Phase: datadir.Removed}, join, RestartingMember, "restart"},
		"an interrupted restore":    {&datadir.Marker{Intent: datadir.Restore, Phase: datadir.Begun}, "", RestartingMember, "restart"},
		"a node without a member":   {&datadir.Marker{Intent: datadir.Join, Phase: datadir.WithoutMember}, "", RestartingMember, "return"},
		"one that becomes a member": {&datadir.Marker{Intent: datadir.Join, Phase: datadir.Adding}, "", RestartingMember, "return"},
		"one that leaves":           {&datadir.Marker{Intent: datadir.Create, Phase: datadir.Leaving}, "", RestartingMember, "return"},
	} {
		cfg := Embedded{DataDir: t.TempDir(), Join: tc.join}
		if tc.marker != nil {
			m := *tc.marker
			m.Cluster, m.Node, m.Address, m.PeerPort, m.ClientPort, m.JoinPort = "c", "a", "10.0.0.2", 8089, 8088, 8087
			m.CAHash, m.MemberID, m.EtcdClusterID = "h", "a1", "c1"
			dir, err := datadir.Open(cfg.DataDir)
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.WriteMarker(m); err != nil {
				t.Fatal(err)
			}
			if err := dir.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := datadir.Layout(cfg.DataDir).ReadMarker(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if state, way, _ := choose(&cfg); state != tc.want || way != tc.way {
			t.Errorf("%s: got %s, %s, want %s, %s", name, state, way, tc.want, tc.way)
		}
	}
}

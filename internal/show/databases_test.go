package show

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/report"
)

// There is a warning from 80 % on, with the command that helps, and one only of a full etcd.
func TestDatabaseWarnings(t *testing.T) {
	for _, tt := range []struct {
		all  []cluster.Observed
		want []string
	}{
		{nil, nil},
		{[]cluster.Observed{{Member: report.Member{Node: "a", DBSize: 5}}, {Member: report.Member{Node: "b", DBSize: 79, Quota: 100}}}, nil},
		{[]cluster.Observed{{Member: report.Member{Node: "a", DBSize: 80, Quota: 100}}, {Member: report.Member{Node: "b", DBSize: 1, Quota: 100}}}, []string{"EtcdNearlyFull a 80 %"}},
		{[]cluster.Observed{{Member: report.Member{Node: "a", DBSize: 99, Quota: 100}}, {Member: report.Member{Node: "b"}, Full: true}}, []string{"EtcdFull  is full"}},
	} {
		got := databaseWarnings(tt.all)
		if len(got) != len(tt.want) {
			t.Errorf("%+v: got %+v", tt.all, got)
			continue
		}
		for i, w := range got {
			words := strings.SplitN(tt.want[i], " ", 3)
			if string(w.Reason) != words[0] || w.Subject != words[1] || !strings.Contains(w.Message, words[2]) || !strings.HasSuffix(w.Message, "type: sidecar cluster defrag") {
				t.Errorf("%+v: got %+v, want %s", tt.all, w, tt.want[i])
			}
		}
	}
}

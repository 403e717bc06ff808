package show

import (
	"strings"
	"testing"
)

// There is a warning from 80 % on, with the command that helps, and one only of a full etcd.
func TestDatabaseWarnings(t *testing.T) {
	for _, tt := range []struct {
		all  []database
		want []string
	}{
		{nil, nil},
		{[]database{{node: "a", size: 5}, {node: "b", size: 79, quota: 100}}, nil},
		{[]database{{node: "a", size: 80, quota: 100}, {node: "b", size: 1, quota: 100}}, []string{"EtcdNearlyFull a 80 %"}},
		{[]database{{node: "a", size: 99, quota: 100}, {node: "b", full: true}}, []string{"EtcdFull  is full"}},
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

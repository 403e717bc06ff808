package membership

import (
	"strings"
	"testing"
)

// There is a warning from 80 % on, with the command that helps, and one only of a full etcd.
func TestDatabaseWarnings(t *testing.T) {
	for _, tt := range []struct {
		all  []Database
		want []string
	}{
		{nil, nil},
		{[]Database{{Node: "a", Size: 5}, {Node: "b", Size: 79, Quota: 100}}, nil},
		{[]Database{{Node: "a", Size: 80, Quota: 100}, {Node: "b", Size: 1, Quota: 100}}, []string{"EtcdNearlyFull a 80 %"}},
		{[]Database{{Node: "a", Size: 99, Quota: 100}, {Node: "b", Full: true}}, []string{"EtcdFull  is full"}},
	} {
		got := DatabaseWarnings(tt.all)
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

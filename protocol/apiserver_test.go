package protocol

import (
	"strings"
	"testing"
)

func TestAPIServerProblem(t *testing.T) {
	for _, tc := range []struct{ wanted, reported, want string }{
		{"", "", ""},
		{"", "v1.35.0", ""},
		{"1.36", "v1.36.2", ""},
		{"1.36.2", "v1.36.2", ""},
		{"1.36", "v1.36.0-rc.1", ""},
		{"1.36.2", "v1.36.2+k3s1", ""},
		{"1.36", "1.36.2", ""},
		{"1.36", "", "has not said its version yet"},
		{"1.3", "v1.36.2", "the one of this node is v1.36.2"},
		{"1.36.1", "v1.36.12", "the one of this node is v1.36.12"},
		{"1.36", "v1.35.9", "start the kube-apiserver of this release"},
		{"1.36", "v2.36.0", "the bundle is for kube-apiserver 1.36 (apiserverVersion in bundle.yaml)"},
		{"1.36.2", "v1.36", "the one of this node is v1.36"},
		{"1.36", "devel", "the one of this node is devel"},
	} {
		got := APIServerProblem(tc.wanted, tc.reported)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("a bundle for %q, a kube-apiserver %q: got %q, want %q", tc.wanted, tc.reported, got, tc.want)
		}
	}
}

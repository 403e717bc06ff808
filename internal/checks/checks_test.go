package checks

import (
	"strings"
	"testing"
)

func TestFailed(t *testing.T) {
	for body, want := range map[string]string{
		"":                            "",
		"no such thing\n[+]ping ok\n": "",
		"[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[+]poststarthook/x ok\nreadyz check failed\n":    "[-]etcd failed: reason withheld",
		"[-]etcd failed: reason withheld\r\n[+]ping ok\r\n[-]informer-sync failed: 2 informers not started yet\n": "[-]etcd failed: reason withheld; [-]informer-sync failed: 2 informers not started yet",
		strings.Repeat("[-]a failed\n", 7): "[-]a failed; [-]a failed; [-]a failed; [-]a failed; [-]a failed; and 2 more",
		"[-]" + strings.Repeat("x", 300):   "[-]" + strings.Repeat("x", 197),
	} {
		if got := Failed(body); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}

func TestMessage(t *testing.T) {
	for body, want := range map[string]string{
		"": "", "[-]etcd failed": "", "{": "", `{"kind":"Pod","message":"x"}`: "", `{"kind":"Status"}`: "",
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path \"/readyz\"","code":403}` + "\n": `forbidden: User "system:anonymous" cannot get path "/readyz"`,
		`{"kind":"Status","message":"` + strings.Repeat("x", 300) + `"}`:                                                                                        strings.Repeat("x", 200),
	} {
		if got := Message(body); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}

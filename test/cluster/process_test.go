package cluster

import (
	"path/filepath"
	"testing"
)

func TestProcess_Ended(t *testing.T) {
	for script, want := range map[string]string{"kill -9 $$": "was killed (signal 9)", "exit 3": "ended with exit code 3"} {
		p, err := startProcess(processConfig{name: "sh", path: "/bin/sh", args: []string{"-c", script}, log: filepath.Join(t.TempDir(), "log")})
		if err != nil {
			t.Fatal(err)
		}
		if how, killed := p.Ended(); how != want || killed != (script == "kill -9 $$") {
			t.Errorf("%s: got %q, killed %t, want %q", script, how, killed, want)
		}
	}
}

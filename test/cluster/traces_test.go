package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/trace"
)

// A trace with a forged step fails its test, and names the file; sidecar replay reads that file as a recording, and names
// the step.
func TestReplayTraces(t *testing.T) {
	program := filepath.Join(cluster.Assets(t, "sidecar"), "sidecar")
	for _, forged := range []bool{false, true} {
		dir := t.TempDir()
		name := filepath.Join(dir, "cp-1-7.trace")
		file, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		hook := trace.To(file, func(err error) { t.Error(err) })
		for _, f := range []protocol.Facts{{}, {Reached: true}, {Reached: true, Stopping: true}} {
			v := protocol.Judge(f)
			v.Ready = v.Ready || forged && f.Stopping
			hook(trace.Event{Gate: &trace.Gate{Facts: f, Verdict: v}})
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = cluster.ValidateTraces(dir)
		if (err != nil) != forged || forged && !strings.Contains(err.Error(), "cp-1-7.trace") {
			t.Errorf("forged %t: got %v", forged, err)
		}
		out, err := cluster.ReplayLongest(dir, program)
		want := "3 steps from "
		if forged {
			want = "event 2, at "
		}
		if (err != nil) != forged || !strings.Contains(out, want) {
			t.Errorf("forged %t: got %v, %s", forged, err, out)
		}
	}
}

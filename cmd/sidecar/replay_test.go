package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// recordingFile records the verdicts of a gate, of which forged changes one, in a file.
func recordingFile(t *testing.T, forged bool) string {
	t.Helper()
	r := trace.NewRecorder(1 << 20)
	hook := r.Hook()
	for _, f := range []protocol.Facts{{}, {Reached: true}, {Reached: true, Stopping: true}} {
		v := protocol.Judge(f)
		v.Ready = v.Ready || forged && f.Stopping
		hook(trace.Event{Gate: &trace.Gate{Facts: f, Verdict: v}})
	}
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "recording.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReplay(t *testing.T) {
	c := command{T: t}
	c.want(console.ExitOK, "3 steps from ", "replay", recordingFile(t, false))
	c.want(console.ExitOK, "ready=false ShuttingDown: the sidecar is shutting down", "replay", "-o", "wide", recordingFile(t, false))
	c.want(console.ExitFailed, "the recording has a step that the protocol does not allow", "replay", recordingFile(t, true))
	c.want(console.ExitFailed, "no such file", "replay", filepath.Join(t.TempDir(), "missing"))
	c.want(console.ExitUsage, "expected one FILE", "replay")
}

func TestExplain(t *testing.T) {
	server := etcdtest.New(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	c.want(console.ExitUsage, "--node: required", "explain", "--at", "14:02")
	c.want(console.ExitUsage, "--at: required", "explain", "--node", "cp-2")
	c.want(console.ExitUsage, "sidecar: --node: required: the ID of the node\nsidecar: --at: required: ", "explain")
	c.want(console.ExitUsage, "--at:", "explain", "--node", "cp-2", "--at", "noon")
	c.want(console.ExitOK, "the history has nothing about this node", "explain", "--node", "cp-2", "--at", "00:00")
	c.want(console.ExitOK, ": that time has not come: it is ", "explain", "--node", "cp-2", "--at", "2999-01-01 14:02")
	c.want(console.ExitOK, "gate: ready=false ShuttingDown", "explain", "--node", "cp-2", "--at", time.Now().Add(time.Hour).Format(time.RFC3339),
		"--recording", recordingFile(t, false))
}

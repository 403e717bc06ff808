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

// TestParseAt: people type as much of a time as they mean.
func TestParseAt(t *testing.T) {
	now := time.Date(2026, 11, 24, 20, 0, 0, 0, time.FixedZone("", 3600))
	for typed, want := range map[string]string{
		"14:02":                        "2026-11-24T14:02:00Z 1m0s",
		"14:02Z":                       "2026-11-24T14:02:00Z 1m0s",
		"14:02:31":                     "2026-11-24T14:02:31Z 1s",
		"14:02:31Z":                    "2026-11-24T14:02:31Z 1s",
		"2026-11-23 14:02":             "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02":             "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02Z":            "2026-11-23T14:02:00Z 1m0s",
		"2026-11-23T14:02+01:00":       "2026-11-23T13:02:00Z 1m0s",
		"2026-11-23 14:02:31":          "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31Z":         "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31.5Z":       "2026-11-23T14:02:31Z 1s",
		"2026-11-23T14:02:31.25+01:00": "2026-11-23T13:02:31Z 1s",
	} {
		asked, err := parseAt(typed, now)
		if got := asked.From.Format(time.RFC3339) + " " + asked.To.Sub(asked.From).String(); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", typed, got, err, want)
		}
	}
	for _, typed := range []string{"", "noon", "14", "14:60", "2026-11-23"} {
		if _, err := parseAt(typed, now); err == nil {
			t.Errorf("%q was read", typed)
		}
	}
}

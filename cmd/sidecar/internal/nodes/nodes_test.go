package nodes

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
)

// The advice to do without a turn is only for a command that has not run.
func TestWithoutEtcd(t *testing.T) {
	away := reach.AwayError{Err: context.DeadlineExceeded}
	for name, tc := range map[string]struct {
		err     error
		advises bool
	}{
		"it has not run": {away, true},
		"it has run":     {reach.AwayError{Err: ranError{context.DeadlineExceeded}}, false},
		"etcd answers":   {context.DeadlineExceeded, false},
	} {
		cmd := withoutEtcd(&cobra.Command{RunE: func(*cobra.Command, []string) error { return tc.err }}, "run the command")
		if err := cmd.RunE(cmd, nil); strings.Contains(err.Error(), "without a turn") != tc.advises {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestReboots(t *testing.T) {
	for typed, want := range map[string]bool{"/sbin/reboot": true, "systemctl reboot": true, "shutdown -r now": true, "systemctl restart x": false, "echo reboot": false} {
		if reboots(strings.Fields(typed)) != want {
			t.Errorf("%s: want %t", typed, want)
		}
	}
}

func TestOverWhenRead(t *testing.T) {
	since := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	c := protocol.Cordon{Since: since, Until: since.Add(time.Minute)}
	reports := func(c protocol.Cordon) *protocol.Record {
		return &protocol.Record{Presence: protocol.Presence{Warnings: []protocol.Warning{noderecord.CordonOverWhenRead(c, since.Add(time.Hour))}}}
	}
	if got := overWhenRead(reports(c), c); !strings.Contains(got, "03:00:00Z by the clock of the machine where it was typed") || !strings.Contains(got, "04:00:00Z by its own clock") {
		t.Errorf("got %q, want both clocks", got)
	}
	another := protocol.Cordon{Since: since.Add(-time.Minute), Until: since.Add(time.Minute)}
	cordoned := reports(c)
	cordoned.Node.Cordon = c
	for what, got := range map[string]string{
		"it reports another one": overWhenRead(reports(another), c), "it is in force": overWhenRead(cordoned, c),
		"it has no end": overWhenRead(reports(protocol.Cordon{Since: since}), protocol.Cordon{Since: since}), "nothing is reported": overWhenRead(&protocol.Record{}, c),
	} {
		if got != "" {
			t.Errorf("%s: got %q", what, got)
		}
	}
}

func TestOutOfService(t *testing.T) {
	alive := func(r protocol.Reason, e protocol.ElectionState) *protocol.Record {
		return &protocol.Record{Alive: true, Presence: protocol.Presence{Reason: r, Election: e}}
	}
	for _, r := range []protocol.Reason{protocol.Cordoned, protocol.Overridden, protocol.Starting, protocol.Fenced, protocol.ServicesNotReady} {
		if !outOfService(alive(r, protocol.Ineligible)) {
			t.Errorf("%s: it is not out of service", r)
		}
		for _, e := range []protocol.ElectionState{protocol.Leading, protocol.Campaigning} {
			if outOfService(alive(r, e)) {
				t.Errorf("%s, %s: it is out of service", r, e)
			}
		}
	}
	for _, r := range []protocol.Reason{protocol.Ready, protocol.NotRegistered, protocol.ReleaseTooOld} {
		if outOfService(alive(r, protocol.Ineligible)) {
			t.Errorf("%s: it is out of service", r)
		}
	}
	if !outOfService(&protocol.Record{Presence: protocol.Presence{Reason: protocol.Ready, Election: protocol.Leading}}) {
		t.Error("it does not run, and is not out of service")
	}
}

// TestCordonReport compares the output of cordon and uncordon with -o json with files, which programs of others rely on.
func TestCordonReport(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	node := protocol.Record{ID: "cp-2", Alive: true, Presence: protocol.Presence{Reason: protocol.Cordoned, Election: protocol.Ineligible}}
	cordoned := newCordonReport(node, protocol.Cordon{Since: at, Until: at.Add(time.Hour)}, "node cp-2 is out of service")
	node.Presence = protocol.Presence{Ready: true, Reason: protocol.Ready, Election: protocol.Campaigning}
	for name, r := range map[string]cordonReport{
		"cordon": cordoned, "uncordon": newCordonReport(node, protocol.Cordon{}, "node cp-2 is in service again: its gate is open"),
	} {
		var out bytes.Buffer
		if err := (console.Program{Stdout: &out}).PrintJSON(r); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("../../testdata/json/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), out.String()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

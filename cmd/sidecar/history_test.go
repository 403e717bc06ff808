package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

func TestHistory(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	c.want(console.ExitUsage, "--kind:", "history", "--kind", "gates")
	c.want(console.ExitUsage, "--since:", "history", "--since", "yesterday")
	c.want(console.ExitOK, "nothing happened in that time", "history")
	c.want(console.ExitOK, "[]", "history", "-o", "json")

	at := time.Now().Add(-time.Hour)
	for i, e := range []history.Entry{
		{Time: at, Until: at.Add(20 * time.Second), Kind: history.Gate, Node: "cp-2", Reason: protocol.Cordoned, Message: "work on the disk", Count: 20, Lasted: time.Second},
		{Time: at.Add(time.Minute), Kind: history.Upgrade, Reason: history.Begun, Message: "releases 1.0.0 and 1.1.0", Count: 1},
		{Time: at.Add(-48 * time.Hour), Until: at.Add(-48 * time.Hour), Kind: history.Leader, Node: "cp-1\x1b[2J", Reason: history.Elected, Message: "it leads", Count: 1},
		{Time: at, Until: at, Kind: history.Service, Node: "cp-2", Subject: "api", Reason: history.Restarted, Message: "the service api was started again: signal: killed", Count: 1},
		{Time: at, Until: at, Kind: history.Warning, Node: "cp-1", Subject: "cp-3", Reason: protocol.ReleaseTooOld, Message: "upgrade it", Count: 1},
	} {
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Put(t.Context(), fmt.Sprint("/lockstep/history/", i), string(value)); err != nil {
			t.Fatal(err)
		}
	}
	wantLanes(t, c, raw, at)
	c.want(console.ExitOK, "work on the disk (20 times, 1s in all)", "history")
	c.want(console.ExitOK, "cp-3: upgrade it", "history", "--kind", "warning")
	c.want(console.ExitOK, "cp-2    ░█", "history", "--node", "cp-2")
	c.want(console.ExitOK, "█░█  1.1.0\n", "history", "--since", "4d", "--kind", "leader")
	c.want(console.ExitOK, `"count": 20`, "history", "--kind", "gate", "-o", "json")
	c.want(console.ExitOK, `"until": null`, "history", "--kind", "upgrade", "-o", "json")
	c.want(console.ExitOK, "[]", "history", "--kind", "leader", "-o", "json")
	c.want(console.ExitOK, "Z: Restarted: the service api was started again: signal: killed\n", "explain", "--node", "cp-2", "--at", at.UTC().Format(time.RFC3339))
	wantTypable(t, c, raw, at)
	c.want(console.ExitOK, `"kind": "gate"`, "history", "--kind", "gate", "--kind", "upgrade", "-o", "json")
	c.want(console.ExitOK, `"kind": "upgrade"`, "history", "--kind", "gate,upgrade", "-o", "json")
	c.want(console.ExitUsage, "--kind:", "history", "--kind", "gate", "--kind", "gates")
	if _, out, _ := c.run("history", "--kind", "gate", "--kind", "upgrade", "-o", "json"); strings.Contains(out, "Restarted") {
		t.Errorf("got entries of other kinds:\n%s", out)
	}
	c.want(console.ExitOK, "  1s  ", "history", "--kind", "gate")
	const unknown = `sidecar: --node: no node of the ID "zz" is known, registered now or in the history; known are cp-1, cp-1 [2J, cp-2`
	c.want(console.ExitFailed, unknown, "history", "--node", "zz")
	c.want(console.ExitFailed, unknown, "history", "--node", "zz", "-o", "json")
	c.want(console.ExitFailed, unknown, "explain", "--node", "zz", "--at", "14:02")
	c.want(console.ExitOK, `"reason": "Elected"`, "history", "--since", "4d", "--kind", "leader", "-o", "json")

	if _, err := raw.Put(t.Context(), "/lockstep/nodes/cp-9", "garbage"); err != nil {
		t.Fatal(err)
	}
	for _, columns := range []int{80, 120} {
		c.columns = fmt.Sprint(columns)
		wantFits(c, columns, "\n  possible cause at ", "explain", "--node", "cp-2", "--at", at.UTC().Format(time.RFC3339))
		wantFits(c, columns, "sidecar node remove cp-9 --confirm-stopped \\\n", "node", "list")
	}
}

// wantFits requires lines of at most so many columns, some of which are continued, and a part of the text.
func wantFits(c command, columns int, part string, args ...string) {
	c.Helper()
	_, out, _ := c.run(args...)
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			c.Errorf("%v: %d columns of %d: %s", args, n, columns, line)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(part), " ")) {
		c.Errorf("%v: got no %q in\n%s", args, part, out)
	}
}

// wantTypable requires that a command in a message has the flags with which this machine reaches etcd, and that a minute has all of it.
func wantTypable(t *testing.T, c command, raw *clientv3.Client, at time.Time) {
	t.Helper()
	minute := at.UTC().Truncate(time.Minute)
	e := history.Entry{
		Time: minute.Add(-time.Hour), Until: minute.Add(-time.Hour + time.Second), Kind: history.Gate, Node: "cp-2", Reason: protocol.Cordoned, Count: 1,
		Message: "for its turn; to give the turn up: sidecar turn end cp-2",
	}
	value, err := json.Marshal(e)
	if err == nil {
		_, err = raw.Put(t.Context(), "/lockstep/history/turn", string(value))
	}
	if err != nil {
		t.Fatal(err)
	}
	typed := "sidecar turn end cp-2 --etcd-servers=" + c.endpoint
	c.want(console.ExitOK, typed, "history", "--node", "cp-2", "--kind", "gate")
	c.want(console.ExitOK, "Z for 1s: Cordoned: for its turn; to give the turn up: "+typed, "explain", "--node", "cp-2", "--at", e.Time.Format("2006-01-02 15:04"))
	c.want(console.ExitOK, "\n  before that: out of service from "+e.Time.Format(time.RFC3339)+" for 1s: Cordoned: ", "explain", "--node", "cp-2", "--at",
		e.Time.Add(5*time.Minute).Format("2006-01-02T15:04Z"))
}

// wantLanes requires the release of a node, the status and the duration of an upgrade above the list, in 80 columns.
func wantLanes(t *testing.T, c command, raw *clientv3.Client, at time.Time) {
	t.Helper()
	put := func(key string, value []byte) {
		if _, err := raw.Put(t.Context(), "/lockstep/"+key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	node := protocol.Node{ID: "cp-2", Roles: protocol.Roles{Controller: true}, Version: protocol.Version{Release: protocol.Release{Major: 1, Minor: 1}}}
	put("nodes/cp-2", fleet.Encode(node))
	written, err := status.Encode(protocol.Status{
		State: protocol.Done, Version: node.Version, MinCompatible: node.Version.Release, ContentRelease: node.Version.Release, Epoch: 1, ContentEpoch: 1,
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	put("kubernetes/reconciler/status", written)
	_, lanes, _ := c.run("history")
	lanes, _, _ = strings.Cut(lanes, "\n\n")
	for _, want := range []string{" upgrade 59m", "\nstatus  DONE 1.1.0, minimum 1.1.0··", "█  1.1.0\n"} {
		if !strings.Contains(lanes, want) {
			t.Errorf("want %q in\n%s", want, lanes)
		}
	}
	for line := range strings.Lines(lanes) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

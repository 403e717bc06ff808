package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// Other nodes conclude from a presence whether an upgrade may start, so what holds it is there,
// however much else is wrong.
func TestReportedWarnings(t *testing.T) {
	var all []protocol.Warning
	for i := range protocol.MaxWarnings {
		all = append(all, protocol.Warning{Reason: warn.OptionalServiceFailing, Message: fmt.Sprint(i)})
	}
	if got := ReportedWarnings(all); !slices.Equal(got, all) {
		t.Errorf("there is room for all: got %v", got)
	}
	held, down := protocol.Warning{Reason: warn.RemovalsHeld}, protocol.Warning{Reason: warn.MemberDown}
	got := ReportedWarnings(append(all, held, down))
	if want := append([]protocol.Warning{held, down}, all[:protocol.MaxWarnings-2]...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	f := protocol.Fleet{Records: []*protocol.Record{{ID: "cp-1", Alive: true, Node: protocol.Node{Roles: protocol.Roles{Controller: true}}, Presence: protocol.Presence{Election: protocol.Leading, Warnings: got}}}}
	if got := reported(f); len(got) != 1 || got[0].Reason != warn.RemovalsHeld {
		t.Errorf("obstacles: got %v", got)
	}
}

// A warning exists for each obstacle that is not the upgrade itself, and that no node reports.
func TestWarnings(t *testing.T) {
	f := protocol.Fleet{Revision: 1, Records: of(
		controller("a", "1.1.0").leading(), controller("b", "1.0.0").dead(), controller("c", "1.1.0").closedBy(protocol.Starting),
		controller("d", "1.1.0").serving().warns(protocol.ServiceNotReady), controller("e", "1.1.0").corrupt("x"), controller("f", "1.1.0").serving().down(),
		controller("g", "1.1.0").serving().down().warns(protocol.APIRefused), // it says so itself
	)}
	shown := func(own protocol.NodeID) (out []string) {
		for _, w := range Warnings(Facts{Status: presentStatus(doneStatus("1.0.0")), Fleet: f}, own) {
			out = append(out, fmt.Sprint(w.Reason, " ", w.Subject))
		}
		return out
	}
	if got, want := strings.Join(shown("a"), ", "), "RecordCorrupt e, NodeDead b, GateClosed c, APIServerNotReady f"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := strings.Join(shown("c"), ", "), "RecordCorrupt e, NodeDead b, APIServerNotReady f"; got != want {
		t.Errorf("on c: got %s, want %s", got, want)
	}
	if got := Warnings(Facts{}, "a"); got != nil {
		t.Errorf("before the fleet was read: got %+v", got)
	}
	f = protocol.Fleet{Revision: 1, Records: of(controller("a", "1.1.0").closedBy(protocol.Fenced), controller("b", "1.1.0").closedBy(protocol.Fenced))}
	if got, want := strings.Join(shown("a"), ", "), "NoLeader , Outage , GateClosed b"; got != want {
		t.Errorf("no gate is open: got %s, want %s", got, want)
	}
}

// A node whose etcd member was removed does not start again with its data directory: the other nodes say who removed it,
// and what brings it back. One that has joined again since then is an ordinary node.
func TestWarnings_removedMember(t *testing.T) {
	removal := protocol.MemberRemoval{Node: "b", At: time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC), By: "root@cp-1", Revision: 9}
	older, another := removal, removal
	older.Revision, older.By = 7, "root@cp-2"
	another.Node = "c"
	facts := func(b *record, voters ...string) Facts {
		f := Facts{Status: presentStatus(doneStatus("1.0.0")), Fleet: protocol.Fleet{Revision: 1, Records: of(controller("a", "1.0.0").leading(), b)}}
		for _, name := range voters {
			f.Voters = append(f.Voters, protocol.Voter{Name: name, Healthy: true})
		}
		f.Removed = []protocol.MemberRemoval{another, removal, older}
		return f
	}
	messages := func(f Facts) (out string) {
		for _, w := range Warnings(f, "a") {
			out += w.Message + "\n"
		}
		return out
	}
	const says = "it is not alive: its etcd member was removed at 2026-11-27T06:00:00Z by root@cp-1; " +
		"if it has stopped for good: sidecar node remove b --confirm-stopped; to bring it back, delete its data directory, " +
		"and join with a new token: sidecar cluster token create --node b"
	b := controller("b", "1.0.0")
	if got := messages(facts(b.dead(), "a")); !strings.Contains(got, says) {
		t.Errorf("got %q, want %q", got, says)
	}
	rejoined := b.dead()
	rejoined.Revision = removal.Revision + 1
	for name, f := range map[string]Facts{
		"it votes":            facts(b.dead(), "a", "b"),
		"it has joined again": facts(rejoined, "a"),
		"etcd runs elsewhere": facts(b.dead()),
		"another node's was":  facts(controller("d", "1.0.0").dead(), "a"),
	} {
		if got := messages(f); strings.Contains(got, "was removed") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	behind := facts(controller("b", "0.9.0").dead(), "a")
	if got := Judge(behind).Obstacles[0].Message; !strings.Contains(got, "b is not alive, and its etcd member was removed: sidecar node remove b --confirm-stopped") {
		t.Errorf("during an upgrade: got %q", got)
	}
}

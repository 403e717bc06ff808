package noderecord

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// stopping is a sidecar that has done everything that it has to do before its
// record is deleted.
func stopping() RetireFacts {
	return RetireFacts{
		Ephemeral: true, Roles: protocol.Roles{Controller: true}, Present: true, GateClosed: true,
		Waited: 20 * time.Second, ShutdownDelay: 15 * time.Second, Refused: time.Second,
	}
}

func TestLeave(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*RetireFacts)
		want   Retirement
		why    string
	}{
		{"nothing of it serves", func(*RetireFacts) {}, DeleteRecord, ""},
		{"a worker too", func(f *RetireFacts) { f.Roles.Worker = true }, DeleteRecord, ""},
		{"its kube-apiserver stopped late", func(f *RetireFacts) { f.Waited = time.Hour }, DeleteRecord, ""},
		{"not ephemeral", func(f *RetireFacts) { f.Ephemeral = false }, KeepRecord, "not ephemeral"},
		{"after an error", func(f *RetireFacts) { f.Failed = true }, KeepRecord, "error"},
		{"without a presence", func(f *RetireFacts) { f.Present = false }, KeepRecord, "presence"},
		{"the role was taken", func(f *RetireFacts) { f.Roles = protocol.Roles{} }, KeepRecord, "roles"},
		{"a member of etcd", func(f *RetireFacts) { f.Roles.Consensus = true }, KeepRecord, "roles"},
		{"a command has the turn", func(f *RetireFacts) { f.Turn = protocol.Turn{Node: "a", Kind: protocol.TurnOfCommand} }, KeepRecord, "turn"},
		{"its services have the turn", func(f *RetireFacts) { f.Turn = protocol.Turn{Node: "a", Kind: protocol.TurnOfServices} }, DeleteRecord, ""},
		{"its gate is open", func(f *RetireFacts) { f.GateClosed = false }, WaitToRetire, "not stopped yet"},
		{"it leads", func(f *RetireFacts) { f.Leads = true }, WaitToRetire, "not stopped yet"},
		{"before the delay", func(f *RetireFacts) { f.Waited = f.ShutdownDelay - 1 }, WaitToRetire, "not stopped yet"},
		{"its kube-apiserver answers", func(f *RetireFacts) { f.Refused = 0 }, WaitToRetire, "not stopped yet"},
		{"only just refused", func(f *RetireFacts) { f.Refused = StoppedAfter - 1 }, WaitToRetire, "not stopped yet"},
		{"waited for nearly a minute", func(f *RetireFacts) { f.Refused, f.Waited = 0, 75*time.Second-1 }, WaitToRetire, "not stopped yet"},
		{"waited for a minute", func(f *RetireFacts) { f.Refused, f.Waited = 0, 75*time.Second }, KeepRecord, "within 1m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := stopping()
			tc.change(&f)
			if got, why := Retire(f); got != tc.want || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") {
				t.Errorf("got %s (%q), want %s (%q)", got, why, tc.want, tc.why)
			}
		})
	}
}

func TestDeletionsDue(t *testing.T) {
	const after = time.Minute
	ephemeral := func(id string, since time.Duration) *protocol.Record {
		r := gone(id, after, since)
		r.Node.Ephemeral = true
		return r
	}
	change := func(r *protocol.Record, change func(*protocol.Record)) *protocol.Record { change(r); return r }
	due := protocol.Fleet{Records: []*protocol.Record{
		ephemeral("due", after),
		ephemeral("me", after),
		change(ephemeral("alive", after), func(r *protocol.Record) { r.Alive = true }),
		change(ephemeral("corrupt", after), func(r *protocol.Record) { r.Problem = "garbage" }),
		change(ephemeral("member", after), func(r *protocol.Record) { r.Node.Roles.Consensus = true }),
		change(ephemeral("promises-nothing", after), func(r *protocol.Record) { r.Node.ExpireAfter = 0 }),
		change(ephemeral("roleless", after), func(r *protocol.Record) { r.Node.Roles.Controller = false }),
		gone("stays", after, after),
		ephemeral("too-soon", after-1),
		ephemeral("turn-of-command", after),
		ephemeral("turn-of-services", after),
		ephemeral("turn-unreadable", after),
		change(ephemeral("worker-too", after), func(r *protocol.Record) { r.Node.Roles.Worker = true }),
	}, Turns: protocol.Turns{Held: []protocol.Turn{
		{Node: "turn-of-command", Kind: protocol.TurnOfCommand}, {Node: "turn-of-services", Kind: protocol.TurnOfServices}, {Node: "turn-unreadable"},
	}}}
	var got []string
	for _, r := range DeletionsDue(due, "me") {
		got = append(got, string(r.ID))
	}
	if want := "due turn-of-services worker-too"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

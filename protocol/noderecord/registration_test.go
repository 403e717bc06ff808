package noderecord

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestMustRegister(t *testing.T) {
	local := protocol.Local{ID: "me", Version: ver("1.1.0"), Constraints: protocol.Constraints{MinReconciler: rel("1.0.0")}}
	last := *controller("me", "1.1.0")
	last.Node.MinReconciler = rel("1.0.0")
	last.Node.BootID, last.Created, last.Writes = "boot", 3, 4
	next := func(change func(*protocol.Record)) protocol.Record {
		r := last
		r.Revision, r.Writes = last.Revision+1, last.Writes+1
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name  string
		found bool
		rec   protocol.Record
		want  bool
	}{
		{"unchanged", true, last, false},
		{"another field", true, next(func(r *protocol.Record) { r.Node.Address = "x" }), false},
		{"another role", true, next(func(r *protocol.Record) { r.Node.Roles.Worker = true }), false},
		{"missing", false, protocol.Record{}, true},
		{"another release", true, next(func(r *protocol.Record) { r.Node.Version = ver("1.2.0") }), true},
		{"another constraint", true, next(func(r *protocol.Record) { r.Node.MinReconciler = rel("0.9.0") }), true},
		{"another promise", true, next(func(r *protocol.Record) { r.Node.ExpireAfter = time.Minute }), true},
		{"another mark", true, next(func(r *protocol.Record) { r.Node.Ephemeral = true }), true},
		{"another boot", true, next(func(r *protocol.Record) { r.Node.BootID = "other" }), true},
		{"the role taken away", true, next(func(r *protocol.Record) { r.Node.Roles.Controller = false }), true},
		{"serves without the role", true, next(func(r *protocol.Record) { r.Node.Serves = false }), true},
		{"corrupt", true, next(func(r *protocol.Record) { r.Problem = "garbage" }), true},
		{"written twice: what it contained in between is unknown", true, next(func(r *protocol.Record) { r.Writes++ }), true},
		{"created again", true, next(func(r *protocol.Record) { r.Created, r.Writes = 9, 1 }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := MustRegister(RegistrationFacts{Found: tc.found, Record: tc.rec, Last: last, Local: local, BootID: "boot"}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

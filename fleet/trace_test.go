package fleet

import (
	"slices"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/trace"
)

// A comparison that found the same as the last one is not reported again.
func TestRegistrar_traceChecked(t *testing.T) {
	var got []int64
	r := &Registrar{cfg: RegistrarConfig{Trace: func(e trace.Event) { got = append(got, e.Checked.Facts.Record.Revision) }}}
	of := func(revision int64, warnings ...protocol.Warning) noderecord.RegistrationFacts {
		now := protocol.Record{ID: "a", Revision: revision, Presence: protocol.Presence{Warnings: warnings}}
		return noderecord.RegistrationFacts{Found: true, Record: now}
	}
	for _, facts := range []noderecord.RegistrationFacts{of(1), of(1), of(2), of(2), of(1), of(1, protocol.Warning{Message: "x"})} {
		r.traceChecked(trace.Checked{Facts: facts, Must: false})
	}
	r.traceChecked(trace.Checked{Facts: of(3), Must: true})
	r.traceChecked(trace.Checked{Facts: of(3), Must: true})
	if want := []int64{1, 2, 1, 1, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

package fleet

import (
	"reflect"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/noderecord"
	"github.com/lockstep-dev/lockstep/trace"
)

// This file reports the actions of a registrar to the recorder and to tests (package trace).

func (r *Registrar) traceRead(found bool, record protocol.Record) {
	if r.cfg.Trace != nil {
		first, _ := r.cfg.firstRoles() // nothing is written before they are known
		r.cfg.Trace(trace.Event{Read: &trace.Read{Found: found, Record: record, First: first}})
	}
}

// traceWrote reports the record in last, which replaced one of that revision.
func (r *Registrar) traceWrote(over int64, local protocol.Local) {
	if r.cfg.Trace != nil {
		r.cfg.Trace(trace.Event{Wrote: &trace.Wrote{Over: over, Record: r.last, Local: local, BootID: r.cfg.BootID}})
	}
}

// traceChecked reports a comparison of the record. One that found the same as the last one is not reported: each change
// of a fleet brings one.
func (r *Registrar) traceChecked(c trace.Checked) {
	if r.cfg.Trace == nil || !c.Must && reflect.DeepEqual(c.Facts, r.traced) {
		return
	}
	r.cfg.Trace(trace.Event{Checked: &trace.Checked{Facts: c.Facts, Must: c.Must}})
	r.traced = c.Facts
}

// traceLeft reports that the record was deleted.
func (r *Registrar) traceLeft(facts noderecord.RetireFacts) {
	if r.cfg.Trace != nil {
		r.cfg.Trace(trace.Event{Left: &trace.Left{Facts: facts}})
	}
}

// set publishes a registration. It is reported first: the gate may know it from now
// on. It needs mu.
func (r *Registrar) set(registration protocol.Registration) {
	if r.cfg.Trace != nil {
		r.cfg.Trace(trace.Event{Published: &trace.Published{Registration: registration}})
	}
	r.registration.Set(registration)
}

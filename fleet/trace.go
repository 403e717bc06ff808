package fleet

import (
	"reflect"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// This file reports the actions of a registrar to the recorder and to tests (package trace).

func (r *Registrar) traceRead(found bool, record protocol.Record) {
	first, _ := r.cfg.firstRoles() // nothing is written before they are known
	r.cfg.Trace.Report(trace.Event{Read: &trace.Read{Found: found, Record: record, First: first}})
}

// traceChecked reports a comparison of the record. One that found the same as the last one is not reported: each change
// of a fleet brings one.
func (r *Registrar) traceChecked(c trace.Checked) {
	if r.cfg.Trace == nil || !c.Must && reflect.DeepEqual(c.Facts, r.traced) {
		return
	}
	r.cfg.Trace(trace.Event{Checked: &c})
	r.traced = c.Facts
}

// set publishes a registration. It is reported first: the gate may know it from now
// on. It needs mu.
func (r *Registrar) set(registration protocol.Registration) {
	r.cfg.Trace.Report(trace.Event{Published: &trace.Published{Registration: registration}})
	r.registration.Set(registration)
}

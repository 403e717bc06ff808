package nodeservices

import (
	"testing"
	"time"
)

// serviceFacts returns all combinations of what a sidecar may know.
func serviceFacts() []Facts {
	var out []Facts
	for bits := range 1 << 11 {
		is := func(bit int) bool { return bits&(1<<bit) != 0 }
		f := Facts{
			Wanted: is(0), Old: is(1), Running: is(2), Complete: is(3), Ready: is(4), GateClosed: is(5), Leads: is(6),
			ShutdownDelay: 2 * time.Second, Closed: time.Second, Known: is(8), Published: is(9),
		}
		if is(7) {
			f.Closed = f.ShutdownDelay
		}
		if is(10) {
			f.Closed += MaxAwaitAddress
		}
		possible := (!f.Old || f.Running) && (!f.Ready || f.Complete) && (!f.Old || !f.Ready)
		if possible {
			out = append(out, f)
		}
	}
	return out
}

func TestNext_keepsTheOrder(t *testing.T) {
	for _, f := range serviceFacts() {
		step := Next(f)
		leaves := !f.Wanted || f.Old
		awaits := f.Running && f.Published && f.Closed < MaxAwaitAddress
		behind := leaves && f.GateClosed && !awaits
		allowed := map[Step]bool{
			AwaitRoles:    !f.Known,
			Idle:          !f.Wanted && !f.Running,
			CloseGate:     leaves && !f.GateClosed,
			AwaitAddress:  leaves && f.GateClosed && awaits,
			HandOver:      behind && f.Leads,
			AwaitDelay:    behind && !f.Leads && f.Running && f.Closed < f.ShutdownDelay,
			StopServices:  behind && !f.Leads && f.Running && f.Closed >= f.ShutdownDelay,
			StartServices: f.Wanted && !f.Old && !f.Complete,
			AwaitServices: f.Wanted && !f.Old && f.Complete && !f.Ready,
			Serve:         f.Wanted && !f.Old && f.Ready,
		}
		if !allowed[step] || !f.Known && step != AwaitRoles {
			t.Errorf("%+v: %s", f, step)
		}
		if step == Serve && !MayRegister(f) {
			t.Errorf("%+v: it serves, and may not register", f)
		}
	}
}

// Each run of steps ends where the sidecar wants it, whatever it began with.
func TestNext_ends(t *testing.T) {
	for _, f := range serviceFacts() {
		var seen []Step
		for last := Next(f); last != Idle && last != Serve; last = Next(f) {
			seen = append(seen, last)
			if len(seen) > 10 {
				t.Fatalf("does not end: %v", seen)
			}
			switch last {
			case AwaitRoles:
				f.Known = true
			case CloseGate:
				f.GateClosed = true
			case AwaitAddress:
				f.Published = false
			case HandOver:
				f.Leads = false
			case AwaitDelay:
				f.Closed = f.ShutdownDelay
			case StopServices:
				f.Old, f.Running, f.Complete, f.Ready = false, false, false, false
			case StartServices:
				f.Running, f.Complete = true, true
			case AwaitServices:
				f.Ready = true
			default:
				t.Fatalf("%+v: %s", f, last)
			}
		}
		if got, want := Next(f) == Serve, f.Wanted; got != want {
			t.Errorf("%+v ends with %s", f, Next(f))
		}
	}
}

func TestMayRegister(t *testing.T) {
	for _, f := range serviceFacts() {
		if got, want := MayRegister(f), !f.Old && (!f.Wanted || f.Ready); got != want {
			t.Errorf("%+v: %v", f, got)
		}
		f.OtherAPIServer = true
		if got, want := MayRegister(f), !f.Old && !f.Wanted; got != want {
			t.Errorf("%+v: %v", f, got)
		}
	}
}

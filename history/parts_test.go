package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// gates is a ledger whose gate closes again and again, a second each, with a second between.
type gates struct {
	*Ledger
	at time.Time
}

func newGates() *gates { return &gates{NewLedger("a", t0), t0} }

func (g *gates) closes(reason protocol.Reason, message string, then ...protocol.Verdict) {
	g.at = g.at.Add(time.Second)
	now := protocol.Verdict{Reason: reason, Message: message}
	g.Verdict(g.at, ready, now)
	for _, v := range then {
		g.at = g.at.Add(time.Second)
		g.Verdict(g.at, now, v)
		now = v
	}
	g.at = g.at.Add(time.Second)
	g.Verdict(g.at, now, ready)
}

func (g *gates) entry() Entry { return g.last(func(h *Held) bool { return h.Kind == Gate }).Entry }

// TestLedger_parts: an entry that joins several outages has each of their messages once, in the order and with the time of their first
// outage, however they return. Of one outage it has what was said then.
func TestLedger_parts(t *testing.T) {
	g := newGates()
	for _, service := range []string{"api", "dns", "api", "dns", "dns"} {
		g.closes(protocol.ServicesNotReady, service+" is not ready")
	}
	e := g.entry()
	if want := "api is not ready; then at 14:02:03Z: dns is not ready (5 times, 5s in all)"; e.Sentence() != want {
		t.Errorf("got %q, want %q", e.Sentence(), want)
	}
	var got []string
	for _, s := range e.stretches() {
		got = append(got, strings.Fields(e.during(s.Span))[0])
	}
	if want := "[api dns api dns dns]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestLedger_otherReason: the message of the entry's reason stays in front, also in the second outage, and what follows has its time.
func TestLedger_otherReason(t *testing.T) {
	g := newGates()
	registers := protocol.Verdict{Reason: protocol.NotRegistered, Message: "its record is written"}
	for range 2 {
		g.closes(protocol.Cordoned, "taken out of service", registers, registers)
	}
	e := g.entry()
	if want := "taken out of service; then at 14:02:02Z: NotRegistered: its record is written (2 times, 6s in all)"; e.Reason != protocol.Cordoned || e.Sentence() != want {
		t.Errorf("got %s: %q, want %q", e.Reason, e.Sentence(), want)
	}
	second := e.stretches()[1].Span
	if got, want := e.during(second), "taken out of service; then at 14:02:06Z: NotRegistered: its record is written"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !e.says("NotRegistered") || !e.says("Cordoned") || e.says("Fenced") {
		t.Error("says is wrong")
	}
	if got, want := g.entry().clock(t0.Add(24*time.Hour)), "2026-01-02T14:02:00Z"; got != want {
		t.Errorf("got %s, want %s: another day", got, want)
	}
}

// TestLedger_partsBounded: the first message and the newest stay.
func TestLedger_partsBounded(t *testing.T) {
	for _, length := range []int{0, MaxMessage} {
		g := newGates()
		for i := range 100 {
			g.closes(protocol.ServicesNotReady, fmt.Sprintf("service %d is not ready", i)+strings.Repeat("x", length))
		}
		e, size := g.entry(), 0
		for _, p := range e.Parts {
			if size += len(p.text(e)); len(p.At) > maxTimes {
				t.Errorf("got %d times", len(p.At))
			}
		}
		got := e.Message + e.laterParts()
		if size > MaxMessage || len(e.Parts) > maxParts || !strings.HasPrefix(got, "service 0 ") || !strings.Contains(got, "; …; then at ") || !strings.Contains(got, "; then at 14:05:19Z: service 99 ") {
			t.Errorf("got %d bytes: %q", size, got)
		}
	}
}

// TestLedger_partsStored: what a former process of the node wrote goes on.
func TestLedger_partsStored(t *testing.T) {
	s, g := &store{}, newGates()
	g.closes(protocol.Cordoned, "one")
	g.closes(protocol.Cordoned, "two")
	s.write(g.Ledger)
	next := &gates{NewLedger("a", g.at), g.at}
	next.Verdict(g.at, protocol.Verdict{}, ready)
	next.Adopt(g.at, stored(t, s))
	next.closes(protocol.Cordoned, "one")
	s.write(next.Ledger)
	if got := s.entries(Gate); len(got) != 1 || got[0].Sentence() != "one; then at 14:02:03Z: two (3 times, 3s in all)" || got[0].during(got[0].stretches()[2].Span) != "one" {
		t.Errorf("got %+v", got)
	}
}

// TestLedger_turns: two turns of a node are two entries, however soon the second one follows. Failed work is an entry of its own, which ends when
// people end the turn, while the turn goes on.
func TestLedger_turns(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	at := func(second int) time.Time { return t0.Add(time.Duration(second) * time.Second) }
	step := func(second int, held ...protocol.Turn) {
		l.Observe(at(second), with(func(f *Facts) { f.Fleet.Turns.Held = held }))
		s.write(l)
	}
	turn := func(since int, command string, work protocol.TurnWork, revision int64) protocol.Turn {
		return protocol.Turn{Node: "b", Since: at(since), Command: command, Work: work, Revision: revision}
	}
	step(0)
	step(1, turn(1, "one", protocol.TurnWorkUnderWay, 50))
	step(5, turn(1, "one", protocol.TurnWorkFailed, 51))
	step(8, turn(1, "one", protocol.TurnWorkDone, 52))
	step(9)
	step(10, turn(10, "two", protocol.TurnWorkUnderWay, 60))
	step(12, turn(12, "three", protocol.TurnWorkUnderWay, 70)) // the end of the second was not seen
	step(13)
	var got []string
	for _, e := range s.entries(Turn) {
		got = append(got, fmt.Sprintf("%s %s %s %d: %s", e.Time.Format("05"), e.Until.Format("05"), e.Reason, e.Count, e.Message))
	}
	want := []string{
		"01 09 TurnUnderWay 1: planned work: one", "05 08 TurnFailed 1: planned work, which failed: one",
		"10 12 TurnUnderWay 1: planned work: two", "12 13 TurnUnderWay 1: planned work: three",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	p := Picture{Entries: s.entries(Turn), Node: "b", From: t0, To: at(15), Width: 15}
	if got := string(p.Lanes()[2].Cells); got != "█T███F████T█T██" {
		t.Errorf("got %s", got)
	}
}

// TestLedger_begunByPeople: what people begin again within a minute is an entry of its own, with its own message.
func TestLedger_begunByPeople(t *testing.T) {
	l, s := NewLedger("a", t0), &store{}
	second := 0
	step := func(change func(*Facts)) {
		l.Observe(t0.Add(time.Duration(second)*time.Second), with(change))
		s.write(l)
		second += 5
	}
	turn := protocol.Turn{Node: "b", Since: t0, Work: protocol.TurnWorkFailed}
	for i, why := range []string{"one", "two"} {
		step(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{{Node: "b", Since: t0, Work: protocol.TurnWorkUnderWay}}
		})
		turn.Problem, turn.Revision = why, int64(50+i)
		cordon := protocol.Cordon{Since: t0, Message: why}
		step(func(f *Facts) {
			f.Fleet.Turns.Held = []protocol.Turn{turn}
			f.Fleet.Records[1].Node.Cordon, f.Fleet.Records[1].Revision = cordon, int64(60+i)
			f.Override = protocol.Override{Until: t0.Add(time.Hour), Message: why}
		})
	}
	step(func(*Facts) {})
	for _, kind := range []Kind{Turn, Cordon, Override} {
		entries := s.entries(kind)
		if kind == Turn {
			entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Reason != warn.TurnFailed })
		}
		if len(entries) != 2 || !strings.Contains(entries[0].Message, "one") || !strings.Contains(entries[1].Message, "two") || counted(entries) != 2 {
			t.Errorf("%s: got %+v", kind, entries)
		}
	}
}

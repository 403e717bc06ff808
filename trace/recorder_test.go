package trace

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// recorded records events, and returns the recording.
func recorded(t *testing.T, limit int, events []Event) []byte {
	t.Helper()
	r := NewRecorder(limit)
	hook := r.Hook()
	for _, e := range events {
		hook(e)
	}
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func replayed(t *testing.T, recording []byte) ([]Event, error) {
	t.Helper()
	read, err := ReadRecording(bytes.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for _, r := range read {
		if r.At.IsZero() {
			t.Errorf("%s has no time", r.Name())
		}
		events = append(events, r.Event)
	}
	_, err = Validate(events)
	return events, err
}

// lives are terms and a node, again and again: more than a small recorder keeps.
func lives(t *testing.T, n int) []Event {
	out := aNode()
	for range n {
		out = append(out, firstTerm(t)...)
		out = append(out, lostTerm(t)...)
	}
	return out
}

// TestRecorder: a recording is valid from wherever it begins, within a term too.
func TestRecorder(t *testing.T) {
	events := lives(t, 150)
	whole, err := replayed(t, recorded(t, 64<<20, events))
	if err != nil || len(whole) != len(events) {
		t.Errorf("got %d of %d events, %v", len(whole), len(events), err)
	}
	for _, limit := range []int{1, 20_000, 40_000} {
		got := recorded(t, limit, events)
		rest, err := replayed(t, got)
		if err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
		if len(rest) == 0 || rest[0].Resumed == nil || len(rest) >= len(events) {
			t.Errorf("limit %d: got %d events, which begin with %s", limit, len(rest), rest[0].Name())
		}
		if len(got) > limit+2*maxRaw {
			t.Errorf("limit %d: got %d bytes", limit, len(got))
		}
	}
}

// TestRecorder_forged: a step that the protocol does not allow is named, also one that was dropped.
func TestRecorder_forged(t *testing.T) {
	forged := nth(lives(t, 150), 1, writes, func(w *Write) { w.Status.State = protocol.Working })
	for _, limit := range []int{64 << 20, 1} {
		if _, err := replayed(t, recorded(t, limit, forged)); err == nil || !strings.Contains(err.Error(), "it writes") {
			t.Errorf("limit %d: got %v, want the forged write", limit, err)
		}
	}
}

func TestReadRecording_damaged(t *testing.T) {
	whole := recorded(t, 64<<20, lives(t, 3))
	for _, at := range []int{0, 1, 10, len(whole) / 2, len(whole) - 1} {
		_, _ = ReadRecording(bytes.NewReader(whole[:at])) // no panic
	}
	if _, err := ReadRecording(strings.NewReader("no recording\nat all\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("got %v, want an error of line 1", err)
	}
}

// TestRecorder_memory: besides its ring, a recorder that has dropped much takes less than 320 KiB.
func TestRecorder_memory(t *testing.T) {
	const limit = 40_000
	events := lives(t, 150)
	live := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what the first one found in pools
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := live()
	r := NewRecorder(limit)
	hook := r.Hook()
	for range 2 {
		for _, e := range events {
			hook(e)
		}
	}
	takes := live() - before
	if !r.dropped || takes > limit+320<<10 {
		t.Errorf("it takes %d bytes, of which the ring %d, dropped: %t", takes, r.size, r.dropped)
	}
	t.Logf("%d bytes besides the ring", takes-r.size)
	runtime.KeepAlive(events)
}

// TestRecorder_holdsADay: 8 MB hold what an idle fleet of three reports in a day.
func TestRecorder_holdsADay(t *testing.T) {
	r := NewRecorder(8 << 20)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return at }
	hook := r.Hook()
	events := aNode()
	for _, e := range events {
		hook(e)
	}
	var checked Event
	for _, e := range events {
		if e.Checked != nil && !e.Checked.Must {
			checked = e
		}
	}
	for range 24 * 60 * 60 / 5 {
		at = at.Add(5 * time.Second)
		hook(checked)
	}
	if r.dropped {
		t.Errorf("it has dropped events, at %d bytes", r.size)
	}
	t.Logf("%d bytes", r.size)
}

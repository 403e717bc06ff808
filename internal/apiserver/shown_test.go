package apiserver

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
)

// TestFollower_turn: an answer from before the work of a turn does not count, and people read why, and since when.
func TestFollower_turn(t *testing.T) {
	own := &protocol.Record{ID: "a"}
	f := New(Config{Node: "a", Asks: true, Local: event.New(protocol.Local{}), Fleet: event.New(protocol.Fleet{Records: []*protocol.Record{own}})})
	f.state.Set(httpapi.APIServer{Enabled: true, Ready: true, Since: time.Unix(1000, 0)})
	closed := protocol.Verdict{Reason: protocol.Cordoned}
	f.NoteTurn(closed)
	if now := f.Now(); !now.Ready || !now.Turn.IsZero() {
		t.Errorf("without a turn: got %+v", now)
	}
	own.Node.Cordon.Turn = true
	f.NoteTurn(closed)
	if now := f.Now(); now.Ready || now.Turn.IsZero() || now.TurnOver || now.Since != time.Unix(1000, 0) {
		t.Errorf("in its turn: got %+v", now)
	}
	own.Node.Cordon.Turn = false
	if now := f.Now(); now.Ready || now.Turn.IsZero() || !now.TurnOver {
		t.Errorf("after its work: got %+v", now)
	}
	event.Update(f.answers, func(t turnAnswers) turnAnswers { t.answered = t.shown; return t })
	if now := f.Now(); !now.Ready || !now.Turn.IsZero() {
		t.Errorf("after an answer: got %+v", now)
	}
}

// A kube-apiserver that starts and ends each second does not make all sidecars read a presence
// each second: the shown state changes a few times a minute. That it is down is shown at once.
func TestDamper(t *testing.T) {
	var d damper
	now := time.Unix(1000, 0)
	ready := httpapi.APIServer{Enabled: true, Ready: true, Since: now}
	down := func(problem string) httpapi.APIServer {
		return httpapi.APIServer{Enabled: true, Message: problem, Since: now}
	}
	if got := d.next(ready, now); !got.Ready {
		t.Errorf("ready at the start: got %+v", got)
	}
	now = now.Add(time.Second)
	first := down("refused")
	if got := d.next(first, now); got != first {
		t.Errorf("down: got %+v", got)
	}
	if got := d.next(down("timeout"), now.Add(time.Second)); got != first {
		t.Errorf("another problem: got %+v", got)
	}
	if got := d.next(down("timeout"), now.Add(problemPause)); got.Message != "timeout" {
		t.Errorf("another problem that lasts: got %+v", got)
	}
	now = now.Add(problemPause + time.Second)
	ready.Since = now
	if got := d.next(ready, now); !got.Ready {
		t.Errorf("ready again, the first time: got %+v", got)
	}
	changes, was := 0, d.shown
	for range 60 {
		now = now.Add(time.Second)
		answer := down("refused")
		if now.Unix()%2 == 0 {
			answer = httpapi.APIServer{Enabled: true, Ready: true, Since: now}
		}
		if got := d.next(answer, now); got.Ready != was.Ready {
			changes, was = changes+1, got
		}
	}
	if changes > 8 {
		t.Errorf("got %d changes in a minute", changes)
	}
	ready.Since = now
	if got := d.next(ready, now.Add(maxSteady)); !got.Ready {
		t.Errorf("it stayed ready: got %+v", got)
	}
}

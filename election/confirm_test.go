package election

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// The time after which nothing of former leaders can land counts from the answer
// that confirms the leadership, not from before it was asked for: until the answer,
// a former leader's lease may have been alive.
func TestLeadership_countsFromTheAnswer(t *testing.T) {
	e := New(Config{
		Client: newClient(t, "127.0.0.1:1"), Local: event.New(protocol.Local{ID: "a"}), Log: slog.New(slog.DiscardHandler),
	})
	l := e.newLeadership(nil, "", 1)
	l.beginRound()
	answered := time.Now()
	l.confirm(&protocol.Input{})
	if l.clock.confirmed.Before(answered) {
		t.Errorf("confirmed %s before the answer", answered.Sub(l.clock.confirmed))
	}
}

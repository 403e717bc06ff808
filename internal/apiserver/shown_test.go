package apiserver

import (
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi"
)

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

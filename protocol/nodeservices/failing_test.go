package nodeservices

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

func TestFailing(t *testing.T) {
	const exit = "exit status 2"
	var all []Run
	want := 0
	for name, tc := range map[string]struct {
		run   Run
		fails bool
	}{
		"it ended again":                    {Run{LastExit: exit, Restarts: 1}, true},
		"it is ready again":                 {Run{LastExit: exit, Restarts: 3, Ready: true}, false},
		"it was ready since it ended":       {Run{LastExit: exit, Restarts: 1, Served: true}, false},
		"it has hung since then":            {Run{LastExit: exit, Restarts: 1, Served: true, Unready: Patience}, true},
		"it ended once":                     {Run{LastExit: exit}, false},
		"it starts":                         {Run{}, false},
		"its first run hangs":               {Run{Restarts: 1}, false},
		"it stops":                          {Run{LastExit: exit, Restarts: 3, Ends: true}, false},
		"it is ready and stops":             {Run{LastExit: exit, Restarts: 3, Ends: true, Ready: true}, false},
		"it has run for a minute":           {Run{Unready: Patience}, true},
		"it has run for less":               {Run{Unready: Patience - 1}, false},
		"it is ready after a minute":        {Run{Unready: time.Hour, Ready: true}, false},
		"it stops, and was never ready":     {Run{Unready: time.Hour, Ends: true}, false},
		"it ended again, and is not needed": {Run{LastExit: exit, Restarts: 1, Optional: true}, true},
		"it hangs, and is not needed":       {Run{Unready: time.Hour, Optional: true}, true},
	} {
		tc.run.Name = "web"
		got := Failing([]Run{tc.run})
		if (len(got) == 1) != tc.fails {
			t.Errorf("%s: got %v", name, got)
		}
		if tc.fails {
			wantFailing(t, name, tc.run, got[0])
		}
		if all = append(all, tc.run); tc.fails {
			want++
		}
	}
	if got := Failing(all); len(got) != want {
		t.Errorf("got %v, want %d of them", got, want)
	}
}

// wantFailing compares a warning with the run that it is about.
func wantFailing(t *testing.T, name string, r Run, got protocol.Warning) {
	t.Helper()
	reason, text := protocol.ServiceFailing, `"web" ended (exit status 2)`
	if r.Unready > 0 {
		reason, text = protocol.ServiceNotReady, `"web" runs and does not become ready`
	}
	if r.Optional {
		reason = warn.OptionalServiceFailing
	}
	if got.Reason != reason || !strings.Contains(got.Message, text) {
		t.Errorf("%s: got %+v, want %s, %s", name, got, reason, text)
	}
}

// What a person must know to correct it.
func TestFailing_message(t *testing.T) {
	began := time.Unix(1700000000, 0)
	got := Failing([]Run{{
		Name: "lb", Unready: time.Hour, Since: began, Problem: "connection refused", File: "/etc/20-lb.yaml", Changed: began,
	}})
	const want = `its service "lb" runs and does not become ready: connection refused; its file: /etc/20-lb.yaml, changed 2023-11-14T22:13:20Z`
	if len(got) != 1 || got[0].Message != want || got[0].Since != began {
		t.Errorf("got  %+v\nwant %s since %s", got, want, began)
	}
}

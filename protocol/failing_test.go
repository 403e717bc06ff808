package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestFailingServices(t *testing.T) {
	const exit = "exit status 2"
	var all []ServiceRun
	want := 0
	for name, tc := range map[string]struct {
		run   ServiceRun
		fails bool
	}{
		"it ended again":                    {ServiceRun{LastExit: exit, Restarts: 1}, true},
		"it is ready again":                 {ServiceRun{LastExit: exit, Restarts: 3, Ready: true}, false},
		"it ended once":                     {ServiceRun{LastExit: exit}, false},
		"it starts":                         {ServiceRun{}, false},
		"its first run hangs":               {ServiceRun{Restarts: 1}, false},
		"it stops":                          {ServiceRun{LastExit: exit, Restarts: 3, Ends: true}, false},
		"it is ready and stops":             {ServiceRun{LastExit: exit, Restarts: 3, Ends: true, Ready: true}, false},
		"it has run for a minute":           {ServiceRun{Unready: ServicePatience}, true},
		"it has run for less":               {ServiceRun{Unready: ServicePatience - 1}, false},
		"it is ready after a minute":        {ServiceRun{Unready: time.Hour, Ready: true}, false},
		"it stops, and was never ready":     {ServiceRun{Unready: time.Hour, Ends: true}, false},
		"it ended again, and is not needed": {ServiceRun{LastExit: exit, Restarts: 1, Optional: true}, true},
		"it hangs, and is not needed":       {ServiceRun{Unready: time.Hour, Optional: true}, true},
	} {
		tc.run.Name = "web"
		got := FailingServices([]ServiceRun{tc.run})
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
	if got := FailingServices(all); len(got) != want {
		t.Errorf("got %v, want %d of them", got, want)
	}
}

// wantFailing compares a warning with the run that it is about.
func wantFailing(t *testing.T, name string, r ServiceRun, got Warning) {
	t.Helper()
	reason, text := ServiceFailing, `"web" ended (exit status 2)`
	if r.Unready > 0 {
		reason, text = ServiceNotReady, `"web" runs and does not become ready`
	}
	if r.Optional {
		reason = OptionalServiceFailing
	}
	if got.Reason != reason || !strings.Contains(got.Message, text) {
		t.Errorf("%s: got %+v, want %s, %s", name, got, reason, text)
	}
}

// What a person has to know to correct it.
func TestFailingServices_message(t *testing.T) {
	began := time.Unix(1700000000, 0)
	got := FailingServices([]ServiceRun{{
		Name: "lb", Unready: time.Hour, Since: began, Problem: "connection refused", File: "/etc/20-lb.yaml", Changed: began,
	}})
	const want = `its service "lb" runs and does not become ready: connection refused; its file: /etc/20-lb.yaml, changed 2023-11-14T22:13:20Z`
	if len(got) != 1 || got[0].Message != want || got[0].Since != began {
		t.Errorf("got  %+v\nwant %s since %s", got, want, began)
	}
}

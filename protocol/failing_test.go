package protocol

import (
	"strings"
	"testing"
)

func TestFailingServices(t *testing.T) {
	const exit = "exit status 2"
	var all []ServiceRun
	want := 0
	for name, tc := range map[string]struct {
		run   ServiceRun
		fails bool
	}{
		"it ended again":        {ServiceRun{LastExit: exit, Restarts: 1}, true},
		"it is ready again":     {ServiceRun{LastExit: exit, Restarts: 3, Ready: true}, false},
		"it ended once":         {ServiceRun{LastExit: exit}, false},
		"it starts":             {ServiceRun{}, false},
		"its first run hangs":   {ServiceRun{Restarts: 1}, false},
		"it stops":              {ServiceRun{LastExit: exit, Restarts: 3, Ends: true}, false},
		"it is ready and stops": {ServiceRun{LastExit: exit, Restarts: 3, Ends: true, Ready: true}, false},
	} {
		tc.run.Name = "web"
		got := FailingServices([]ServiceRun{tc.run})
		if (len(got) == 1) != tc.fails {
			t.Errorf("%s: got %v", name, got)
		}
		if tc.fails && (got[0].Reason != ServiceFailing || !strings.Contains(got[0].Message, `"web" ended (exit status 2)`)) {
			t.Errorf("%s: got %+v", name, got[0])
		}
		if all = append(all, tc.run); tc.fails {
			want++
		}
	}
	if got := FailingServices(all); len(got) != want {
		t.Errorf("got %v, want %d of them", got, want)
	}
}

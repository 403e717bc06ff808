package show

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/variables"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/nodeservices"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/report"
)

// A service that the sidecar stops, or stopped, ends on purpose.
func TestServiceRuns(t *testing.T) {
	for phase, ends := range map[service.Phase]bool{
		service.BackOff: false, service.Running: false, service.Stopping: true, service.Stopped: true,
	} {
		st := service.Status{Service: report.Service{Phase: phase, LastExit: "exit status 2", Restarts: 3, Required: true}}
		st.Name = "web"
		want := []nodeservices.Run{{Name: "web", Ends: ends, LastExit: "exit status 2", Restarts: 3}}
		now := time.Now()
		st.Since = report.At(now)
		if got, _ := serviceRuns(service.State{Services: []service.Status{st}}, nil, now); !slices.Equal(withoutSince(got), want) {
			t.Errorf("%s: got %+v, want %+v", phase, got, want)
		}
	}
}

func withoutSince(of []nodeservices.Run) []nodeservices.Run {
	for i := range of {
		of[i].Since = time.Time{}
	}
	return of
}

// The answers of a probe may alternate: a warning follows them now and then.
func TestServiceRuns_answers(t *testing.T) {
	began := time.Now()
	st := service.Status{Service: report.Service{Name: "web", Phase: service.Running, Since: report.At(began), Problem: "refused", Required: true}}
	state := func(problem string) service.State {
		st.Problem = problem
		return service.State{Services: []service.Status{st}}
	}
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

	runs, answers := serviceRuns(state("refused"), nil, at(1))
	if runs[0].Problem != "refused" || runs[0].Unready != time.Second || runs[0].Since != began {
		t.Errorf("got %+v", runs)
	}
	if got := nextServiceFault(state("refused"), answers, at(1)); got != at(60) {
		t.Errorf("decide again at %s, want a minute after the start", got.Sub(began))
	}
	runs, answers = serviceRuns(state("no answer"), answers, at(20))
	if runs[0].Problem != "refused" {
		t.Errorf("got %q, want the first answer for half a minute", runs[0].Problem)
	}
	if got := nextServiceFault(state("no answer"), map[string]probeAnswer{"web": {"refused", at(50)}}, at(70)); got != at(80) {
		t.Errorf("decide again after %s, want half a minute after the answer", got.Sub(began))
	}
	runs, answers = serviceRuns(state("no answer"), answers, at(31))
	if runs[0].Problem != "no answer" || answers["web"].at != at(31) {
		t.Errorf("got %+v, %+v", runs, answers)
	}
	if got := nextServiceFault(state("no answer"), answers, at(90)); !got.IsZero() {
		t.Errorf("decide again after %s, want never", got.Sub(began))
	}
	st.Ready = true
	if got := nextServiceFault(state(""), answers, at(30)); !got.IsZero() {
		t.Errorf("it is ready, and decides again after %s", got.Sub(began))
	}
	st.Ready, st.Phase = false, service.Waiting
	if runs, _ := serviceRuns(state(""), nil, at(90)); runs[0].Unready != 0 {
		t.Errorf("it waits for another one: got %+v", runs)
	}
}

// Only services that use the servers of etcd lack them, and the node warns of it.
func TestServiceWarnings_missingServers(t *testing.T) {
	for command, want := range map[string][]protocol.Warning{
		"--etcd-servers=$(ETCD_SERVERS)": {{Reason: warn.ServersReplaced, Message: "m"}}, "--etcd-servers=http://127.0.0.1:2379": nil,
	} {
		s := &Show{Facts: Facts{
			ServicesProblem: event.New(""), Servers: event.New(variables.Missing{Servers: 2, Message: "m"}),
			Services: event.New([]service.Service{{Name: "unit"}, {Name: "kube-apiserver", Process: &service.Process{Command: []string{"kube-apiserver", command}}}}),
		}}
		if got := s.serviceWarnings(nil); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v", command, got)
		}
	}
}

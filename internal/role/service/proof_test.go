package service

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
)

// A service ends soon after each start, since another program occupies its place. That program answers the
// probe, which is a program itself: the service is never ready.
func TestSupervisor_anotherProgramAnswersExec(t *testing.T) {
	svc := Service{
		Name: "api", Role: "kubernetes_controller", StopTimeout: limit,
		Process:   &Process{Command: []string{"/bin/sh", "-c", "sleep 0.3; echo address already in use; exit 1"}},
		Readiness: &readiness.Config{Exec: &readiness.Exec{Command: []string{"/bin/true"}}, Period: time.Second, Timeout: limit, SuccessThreshold: 1, FailureThreshold: 1},
	}
	s, stop := supervise(t, svc)
	defer stop()
	timer := time.After(limit)
	for said := false; ; {
		now, changed := s.State().Load()
		st, known := now.find("api")
		said = said || strings.Contains(st.Problem, "its probe succeeded before it was started")
		switch {
		case known && st.Ready:
			t.Fatalf("the other program made it ready: %+v", st)
		case st.Restarts > 1 && said:
			return
		}
		select {
		case <-changed:
		case <-timer:
			t.Fatalf("got %+v", st)
		}
	}
}

package systemd

import (
	"encoding/hex"
	"fmt"
)

// unitState contains the unit properties that the driver uses.
type unitState struct {
	Load, Active, Sub string
	Result            string // of the last run; empty: unknown
	ExitStatus        int32  // of the main process
	Invocation        string // changes with each start
	Job               uint32 // the job that is queued or runs; 0: none
	ConditionFailed   bool   // at the last start
	AssertFailed      bool   // at the last start
	LoadError         string // why the unit cannot be loaded; empty: it can be loaded
}

// newUnitState reads properties. It ignores missing ones and ones of another type.
func newUnitState(p map[string]any) unitState {
	s := unitState{
		Load: text(p, "LoadState"), Active: text(p, "ActiveState"), Sub: text(p, "SubState"), Result: text(p, "Result"),
		ConditionFailed: failedCheck(p, "Condition"), AssertFailed: failedCheck(p, "Assert"),
	}
	s.ExitStatus, _ = p["ExecMainStatus"].(int32)
	if id, is := p["InvocationID"].([]byte); is {
		s.Invocation = hex.EncodeToString(id)
	}
	if job, is := p["Job"].([]any); is && len(job) > 0 { // number and path
		s.Job, _ = job[0].(uint32)
	}
	if problem, is := p["LoadError"].([]any); is && len(problem) > 1 { // name and message
		s.LoadError, _ = problem[1].(string)
	}
	return s
}

func text(p map[string]any, name string) string {
	s, _ := p[name].(string)
	return s
}

// failedCheck reports whether a check of the last start failed. Before the first start, systemd
// reports the result false too, without a time.
func failedCheck(p map[string]any, name string) bool {
	passed, is := p[name+"Result"].(bool)
	at, _ := p[name+"Timestamp"].(uint64)
	return is && !passed && at > 0
}

// ended reports whether no process of the unit runs, and systemd will not start one by itself.
func (s unitState) ended() bool {
	return s.Job == 0 && (s.Active == "inactive" || s.Active == "failed")
}

// runs reports whether the unit is started.
func (s unitState) runs() bool {
	return s.Active == "active" || s.Active == "reloading" || s.Active == "refreshing"
}

// reason explains why a unit ended. result is the result of the start job; empty: unknown.
func (s unitState) reason(unit, result string) string {
	how := fmt.Sprintf("unit %s is %s (%s)", unit, s.Active, s.Sub)
	switch {
	case s.Load != "" && s.Load != "loaded":
		how = fmt.Sprintf("unit %s cannot be loaded (%s)", unit, s.Load)
		if s.LoadError != "" {
			how += ": " + s.LoadError
		}
		return how
	case s.Active == "failed":
		return fmt.Sprintf("%s: result %s, exit status %d; see systemctl status %s", how, s.Result, s.ExitStatus, unit)
	case s.ConditionFailed:
		return how + ": a condition of the unit is not met; see systemctl status " + unit
	case s.AssertFailed:
		return how + ": an assertion of the unit is not met; see systemctl status " + unit
	case result != "" && result != "done":
		return fmt.Sprintf("%s: its start job ended with %q; see systemctl status %s", how, result, unit)
	}
	return fmt.Sprintf("%s: its main process ended with exit status %d", how, s.ExitStatus)
}

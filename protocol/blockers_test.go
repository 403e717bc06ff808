package protocol

import (
	"strings"
	"testing"
)

func TestBlockers_message(t *testing.T) {
	now, next := doneStatus("0.9.0"), doneStatus("1.0.0")
	got := Blockers(now, next, Fleet{Records: []*Record{controller("n", "0.9.0").dead()}})
	if len(got) != 1 || !strings.Contains(got[0].Message, "sidecar node remove n") {
		t.Errorf("a dead blocker's message does not say what to do: %+v", got)
	}
}

package protocol

import (
	"testing"
	"time"
)

func TestNext_keepsTarget(t *testing.T) {
	runNext(t, []nextCase{
		{"a new leader records its epoch",
			given(presentStatus(targetStatus())),
			"Write (KeepTarget) DONE version=1.1.0 min=1.0.0 content=1.1.0@4 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=50"},
		{"reconciles once in its epoch",
			given(presentStatus(targetStatus().by("me", 7))),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"then holds",
			given(presentStatus(targetStatus().by("me", 7))).progress(Progress{Finished: ownContent(4)}),
			"Hold (KeepTarget)"},
		{"a full pass is due",
			given(presentStatus(targetStatus().by("me", 7))).progress(Progress{Finished: ownContent(4), Due: true}),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"removals wait for an older node that is dead",
			given(presentStatus(targetStatus().by("me", 7)), controller("old", "1.0.0").dead()).progress(Progress{Finished: ownContent(4), Owed: 2}),
			"Hold (KeepTarget)"},
		{"removals are due",
			given(presentStatus(targetStatus().by("me", 7)), controller("peer", "1.1.0")).progress(Progress{Finished: ownContent(4), Owed: 2}),
			"Reconcile (KeepTarget) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=false"},
		{"removals wait for an older record that has expired",
			given(presentStatus(targetStatus().by("me", 7)), controller("old", "1.0.0").gone(time.Minute, time.Hour)).progress(Progress{Finished: ownContent(4), Owed: 2}),
			"Hold (KeepTarget)"},
	})
}

package protocol

import "testing"

func TestNext_withoutStatus(t *testing.T) {
	seen := Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{contentOf("1.0.0", "0.9.0", 4)}, HighestEpoch: 4}
	runNext(t, []nextCase{
		{"waits until the status has been read",
			given(StatusView{}),
			"Hold (AwaitStatus)"},
		{"reads the mark first",
			given(absentStatus()),
			"Survey (RebuildStatus)"},
		{"a new cluster: reconciles before it writes a status",
			given(absentStatus()).mark(Mark{Kind: MarkAbsent}),
			"Reconcile (FirstReconciliation) 1.1.0@1 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"a new cluster with garbage in its status key",
			given(corruptStatus()).mark(Mark{Kind: MarkAbsent}),
			"Reconcile (FirstReconciliation) 1.1.0@1 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"an unfinished first reconciliation of the same content keeps its epoch",
			given(absentStatus()).mark(Mark{Kind: MarkPresent, Entries: []Content{ownContent(3)}, HighestEpoch: 3}),
			"Reconcile (FirstReconciliation) 1.1.0@3 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"an unfinished one of other content: a higher epoch",
			given(absentStatus()).mark(Mark{Kind: MarkPresent, Entries: []Content{ownContent(2), contentOf("1.0.0", "1.0.0", 3)}, HighestEpoch: 3}),
			"Reconcile (FirstReconciliation) 1.1.0@4 digest=d1.1 M=1.0.0 A=1.0.0 removals=true wait=true"},
		{"writes the target when all objects are in place",
			given(absentStatus()).mark(Mark{Kind: MarkAbsent}).progress(Progress{Finished: ownContent(1)}),
			"Write (FirstReconciliation) DONE version=1.1.0 min=1.0.0 content=1.1.0@1 digest=d1.1 epoch=7 drained=0 leader=me if epoch=7 status=0"},
		{"rebuilds a lost status from the mark",
			given(absentStatus()).mark(Mark{Kind: MarkPresent, FirstDone: true, HighestEpoch: 6,
				Entries: []Content{contentOf("1.0.0", "0.9.0", 4), contentOf("1.2.0", "1.1.0", 6)}}),
			"Write (RebuildStatus) WORKING version=1.0.0 min=1.1.0 content=1.2.0@6 digest=d1.2.0 epoch=7 drained=0 leader=me if epoch=7 status=0"},
		{"rebuilds a corrupt status, at its revision",
			given(corruptStatus()).mark(seen),
			"Write (RebuildStatus) WORKING version=1.0.0 min=0.9.0 content=1.0.0@4 digest=d1.0.0 epoch=7 drained=0 leader=me if epoch=7 status=50"},
	})
}

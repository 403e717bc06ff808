package protocol

import "testing"

// TestRulesAreEvaluatedInOrder takes each two neighbours among the rules, with facts to
// which the earlier applies, and the later, too, unless the two exclude each
// other. Next answers with the earlier rule, and with the later once the fact
// that the earlier needs has changed.
func TestRulesAreEvaluatedInOrder(t *testing.T) {
	newer := controller("n", "1.2.0")
	worker := given(presentStatus(targetStatus()))
	worker.Fleet.Records[0] = worker.Fleet.Records[0].worker().cordoned()
	cordoned := given(presentStatus(targetStatus()), newer)
	cordoned.Fleet.Records[0] = cordoned.Fleet.Records[0].cordoned()
	ofNewer := targetStatus()
	ofNewer.ContentRelease = rel("1.2.0")
	known := Mark{Kind: MarkPresent, FirstDone: true, Entries: []Content{contentOf("1.0.0", "0.9.0", 4)}, HighestEpoch: 4}
	foreign := known
	foreign.Store = "another"
	foreign.Entries = []Content{contentOf("1.0.0", "0.9.0", 4)}
	foreign.Entries[0].Bundle = "acme"
	named := foreign
	named.Store = ""
	apiGone := Progress{APIGone: true}
	raised := doneStatus("0.9.0")
	cases := []struct {
		in      Input
		without func(Input) Input // changes the fact that the earlier rule needs
	}{
		{worker, func(in Input) Input { in.Fleet.Records[0].Node.Roles.Controller = true; return in }},
		{cordoned, func(in Input) Input { in.Fleet.Records[0].Node.Cordon = Cordon{}; return in.rollingBack("0.9.0") }},
		{given(presentStatus(targetStatus()), newer).rollingBack("0.9.0"), func(in Input) Input { in.Fleet.Rollback = Rollback{}; return in }},
		{given(presentStatus(targetStatus()), newer).progress(apiGone), func(in Input) Input { in.Fleet.Records = in.Fleet.Records[:1]; return in }},
		{given(StatusView{}).progress(apiGone), func(in Input) Input { in.Progress = Progress{}; return in }},
		{given(StatusView{}).mark(foreign), func(in Input) Input { in.Status = absentStatus(); return in }},
		{given(absentStatus()).mark(foreign).of("base"), func(in Input) Input { in.Mark.Store = ""; return in }},
		{given(absentStatus()).mark(named).of("base").progress(Progress{Finished: ownContent(5)}), func(in Input) Input { return in.of("acme") }},
		{given(absentStatus()).mark(known).progress(Progress{Finished: ownContent(5)}), func(in Input) Input { in.Progress = Progress{}; return in }},
		{given(corruptStatus(), newer.dead()).mark(known), func(in Input) Input { in.Status = presentStatus(ofNewer); return in }},
		{given(presentStatus(ofNewer), newer.dead()), func(in Input) Input { in.Status = presentStatus(targetStatus()); return in }},
		{given(presentStatus(targetStatus())), func(in Input) Input { in.Status.Status.State = Working; return in }},
		{given(presentStatus(doneStatus("1.0.0")), controller("n", "0.9.0")), func(in Input) Input { in.Status = presentStatus(raised); return in }},
	}
	rules := []Rule{
		ResignWithoutRole, ResignCordoned, ResignForRollback, ResignToNewer, YieldUnreachable, AwaitStatus,
		HoldForStore, HoldForBundle, FirstReconciliation, RebuildStatus, HoldForNewer, KeepTarget, ApplyContent, WaitForNodes,
	}
	if len(cases) != len(rules)-1 {
		t.Fatalf("got %d pairs of %d rules", len(cases), len(rules))
	}
	for i, tc := range cases {
		earlier, later := rules[i], rules[i+1]
		t.Run(string(earlier+" before "+later), func(t *testing.T) {
			if got := Next(tc.in); got.Rule != earlier {
				t.Errorf("got %s, want %s", got, earlier)
			}
			if got := Next(tc.without(tc.in)); got.Rule != later {
				t.Errorf("without its fact: got %s, want %s", got, later)
			}
		})
	}
}

package protocol

import "testing"

func TestDrainStateOf(t *testing.T) {
	withEpochs := func(epoch, drained int64) StatusView {
		return StatusView{Kind: StatusPresent, Status: Status{Epoch: epoch, DrainedEpoch: drained}}
	}
	for _, tt := range []struct {
		name string
		view StatusView
		mark Mark
		want DrainState
		went bool // the store, back
	}{
		{"the last leader drained", withEpochs(7, 7), Mark{}, Drained, false},
		{"it did not, one before it did", withEpochs(9, 7), Mark{}, Undrained, false},
		{"it did, in a store that went back since", withEpochs(7, 7), Mark{}, Undrained, true},
		{"one of another store drained", withEpochs(7, 9), Mark{}, Undrained, false},
		{"written by hand", withEpochs(0, 0), Mark{}, Undrained, false},
		{"a mark does not change what the status shows", withEpochs(7, 7), Mark{Kind: MarkPresent}, Drained, false},
		{"no status, nothing known of the mark", StatusView{Kind: StatusAbsent}, Mark{}, DrainUnknown, false},
		{"no status, no mark, no stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent}, Drained, false},
		{"no status, no mark, but a stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent, HighestEpoch: 1}, Undrained, false},
		{"no status, but a mark", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkPresent}, Undrained, false},
		{"garbage", StatusView{Kind: StatusUndecodable}, Mark{Kind: MarkPresent, FirstDone: true}, Undrained, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := DrainStateOf(tt.view, tt.went).Surveyed(tt.mark); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	view := StatusView{Kind: StatusPresent, Status: Status{State: Done, Leader: "former", Epoch: 7, DrainedEpoch: 5}}
	drained := view
	drained.Status.DrainedEpoch = 7
	for _, tt := range []struct {
		name string
		f    ResignFacts
		want bool
	}{
		{"after one that drained", ResignFacts{Status: view, Epoch: 8, Predecessors: Drained, Ended: true}, true},
		{"after one that did not, too early", ResignFacts{Status: view, Epoch: 8, Predecessors: Undrained, Ended: true}, false},
		{"after one that did not, late enough", ResignFacts{Status: view, Epoch: 8, Predecessors: Undrained, Waited: true, Ended: true}, true},
		{"former leaders are unknown", ResignFacts{Status: view, Epoch: 8, Ended: true}, false},
		{"with a request of its own with unknown outcome", ResignFacts{Status: view, Epoch: 8, Predecessors: Drained, Waited: true}, false},
		{"where the status has it already", ResignFacts{Status: drained, Epoch: 8, Predecessors: Drained, Waited: true, Ended: true}, false},
		{"without a status to write it in", ResignFacts{Status: StatusView{Kind: StatusAbsent}, Epoch: 8, Predecessors: Drained, Ended: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Leader = "me"
			got, ok := Drain(tt.f)
			if ok != tt.want {
				t.Fatalf("got %t, want %t", ok, tt.want)
			}
			want := view.Status
			want.Leader, want.Epoch, want.DrainedEpoch = "me", 8, 8
			if ok && got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

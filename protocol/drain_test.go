package protocol

import "testing"

func TestPast(t *testing.T) {
	present := func(epoch, drained int64) StatusView {
		return StatusView{Kind: StatusPresent, Status: Status{Epoch: epoch, DrainedEpoch: drained}}
	}
	for _, tt := range []struct {
		name string
		view StatusView
		mark Mark
		want Past
		went bool // the store, back
	}{
		{"the last leader drained", present(7, 7), Mark{}, PastDrained, false},
		{"it did not, one before it did", present(9, 7), Mark{}, PastUndrained, false},
		{"it did, in a store that went back since", present(7, 7), Mark{}, PastUndrained, true},
		{"one of another store drained", present(7, 9), Mark{}, PastUndrained, false},
		{"written by hand", present(0, 0), Mark{}, PastUndrained, false},
		{"a mark does not change what the status tells", present(7, 7), Mark{Kind: MarkPresent}, PastDrained, false},
		{"no status, nothing known of the mark", StatusView{Kind: StatusAbsent}, Mark{}, PastUnknown, false},
		{"no status, no mark, no stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent}, PastDrained, false},
		{"no status, no mark, but a stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent, HighestEpoch: 1}, PastUndrained, false},
		{"no status, but a mark", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkPresent}, PastUndrained, false},
		{"garbage", StatusView{Kind: StatusUndecodable}, Mark{Kind: MarkPresent, FirstDone: true}, PastUndrained, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := PastOf(tt.view, tt.went).Surveyed(tt.mark); got != tt.want {
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
		f    Farewell
		want bool
	}{
		{"after one that drained", Farewell{Status: view, Epoch: 8, Past: PastDrained, Ended: true}, true},
		{"after one that did not, too early", Farewell{Status: view, Epoch: 8, Past: PastUndrained, Ended: true}, false},
		{"after one that did not, late enough", Farewell{Status: view, Epoch: 8, Past: PastUndrained, Waited: true, Ended: true}, true},
		{"nobody knows who was there", Farewell{Status: view, Epoch: 8, Ended: true}, false},
		{"with an own request of unknown outcome", Farewell{Status: view, Epoch: 8, Past: PastDrained, Waited: true}, false},
		{"where the status says so already", Farewell{Status: drained, Epoch: 8, Past: PastDrained, Waited: true, Ended: true}, false},
		{"without a status to say it in", Farewell{Status: StatusView{Kind: StatusAbsent}, Epoch: 8, Past: PastDrained, Ended: true}, false},
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

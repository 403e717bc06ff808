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
	}{
		{"the last leader drained", present(7, 7), Mark{}, PastDrained},
		{"it did not, one before it did", present(9, 7), Mark{}, PastUndrained},
		{"one of another store drained", present(7, 9), Mark{}, PastUndrained},
		{"written by hand", present(0, 0), Mark{}, PastUndrained},
		{"a mark does not change what the status tells", present(7, 7), Mark{Kind: MarkPresent}, PastDrained},
		{"no status, nothing known of the mark", StatusView{Kind: StatusAbsent}, Mark{}, PastUnknown},
		{"no status, no mark, no stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent}, PastDrained},
		{"no status, no mark, but a stamp", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkAbsent, HighestEpoch: 1}, PastUndrained},
		{"no status, but a mark", StatusView{Kind: StatusAbsent}, Mark{Kind: MarkPresent}, PastUndrained},
		{"garbage", StatusView{Kind: StatusUndecodable}, Mark{Kind: MarkPresent, FirstDone: true}, PastUndrained},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := PastOf(tt.view).Surveyed(tt.mark); got != tt.want {
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

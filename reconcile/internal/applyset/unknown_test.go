package applyset

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Marks that a newer program wrote, with fields that this one does not know.
const (
	newerEntry = `{"release":"1.0.0","minReconcilerRelease":"0.9.0","minApiserverRelease":"1.0.0","digest":"sha256:1.0.0","contentEpoch":1,"b":[1, 2]}`
	newerMark  = `{"a":{"n":"<"},"FirstDone":true,"leaderEpoch":3,"entries":[` + newerEntry + `]}`
)

// The fields of a newer program survive a write of this one.
func TestEncodeMark_over(t *testing.T) {
	old, next := content(release(1, 0, 0), 1), content(release(1, 1, 0), 2)
	begun := MarkData{FirstDone: true, LeaderEpoch: 9, Entries: []protocol.Content{old, next}}
	again := old
	again.Epoch = 7
	fill := func(n int) string {
		return strings.Replace(newerMark, `"n":"<"`, `"n":"`+strings.Repeat("x", n)+`"`, 1)
	}
	for _, tt := range []struct {
		name, previous string
		mark           MarkData
		a, b           bool // are kept
	}{
		{"a pass begins", newerMark, begun, true, true},
		{"a pass is finished", newerMark, Finished(next, 9), true, false},
		{"another epoch of the same content", newerMark, Finished(again, 9), true, false},
		{"as many as possible", fill(maxUnknown - len(`,"a":{"n":""},"b":[1,2]`)), begun, true, true},
		{"too many", fill(maxUnknown - len(`,"a":{"n":""},"b":[1,2]`) + 1), begun, false, false},
		{"of a damaged mark", strings.Replace(newerMark, `"contentEpoch":1`, `"contentEpoch":0`, 1), begun, false, false},
		{"of no mark", "", begun, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := encodeMark(tt.previous, tt.mark)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := strings.Contains(got, `,"a":{"n":"`), strings.Contains(got, `,"b":[1,2]}`); a != tt.a || b != tt.b || strings.Contains(got, "FirstDone") {
				t.Errorf("got %s, want field a: %t, and b of the entry: %t", got, tt.a, tt.b)
			}
			wantMarkRoundTrip(t, tt.previous, tt.mark)
			if twice, err := encodeMark(got, tt.mark); err != nil || twice != got {
				t.Errorf("got %s, %v over itself, want %s", twice, err, got)
			}
		})
	}
}

func TestParent_keepsUnknownFields(t *testing.T) {
	p := DecodeParent(&kube.Object{Object: map[string]any{"data": map[string]any{markKey: newerMark}}})
	if !p.Known {
		t.Fatalf("got %+v, want a mark", p)
	}
	work := protocol.Work{Content: content(release(1, 1, 0), 2), LeaderEpoch: 9}
	begun := p.Mark.Begun(work)
	p = rereadParent(t, p, begun)
	if got := encoded(p.Object, markKey); !strings.Contains(got, `"a":{`) || !strings.Contains(got, `"b":[1,2]`) || !p.Mark.SameContent(begun) {
		t.Errorf("got %s", got)
	}
	p.Mark, p.Known = MarkData{}, false // as For does with a damaged mark
	if got := encoded(rereadParent(t, p, begun).Object, markKey); strings.Contains(got, `"a":{`) {
		t.Errorf("got %s over a damaged mark", got)
	}
}

package page_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/page"
)

// TestLanes_many: of 200 nodes, those with entries are drawn first, the note says the truth about the others, all can be drawn, and
// the list has every one of 1,000 entries.
func TestLanes_many(t *testing.T) {
	url := serveHistory(t, nil) // first: it waits at the end until the browser has gone
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	stopFetching(t, b)
	var nodes []string
	for i := range 200 {
		nodes = append(nodes, fmt.Sprintf(`{"id": "controlplane-%03d", "release": "1.0.0", "alive": true, "ready": true, "roles": ["kubernetes_controller"]}`, i))
	}
	showReport(t, b, report{"many", json.RawMessage(`{"node": {"id": "controlplane-000"}, "fleet": {"nodes": [` + strings.Join(nodes, ",") + `]}}`), noonOf})
	for _, test := range []many{
		{0, 10, 12, "12 of 200 nodes are drawn. Of the others, none has entries in this time."},
		{1, 10, 1, "1 of 200 nodes are drawn. Of the others, none has entries in this time."},
		{13, 20, 12, "12 of 200 nodes are drawn. Of the others, 1 has entries in this time."},
		{200, 1000, 12, "12 of 200 nodes are drawn. Of the others, 188 have entries in this time."},
	} {
		test.wantLanes(t, b)
	}
	for _, v := range []page.View{views[0], views[3]} {
		if err := b.Resize(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		wantLayout(t, b, fmt.Sprintf("many at %d", v.Width))
		takeShot(t, b, "many", v)
	}
}

// many is a history of 200 nodes, and what the page says of it.
type many struct {
	busy, entries, drawn int
	says                 string
}

func (m many) wantLanes(t *testing.T, b *page.Browser) {
	t.Helper()
	var entries []history.Entry
	for i := range m.entries {
		e := entry(history.Gate, "", float64(i)/20, float64(i)/20+1, protocol.Cordoned, "work")
		if m.busy > 0 {
			e.Node = protocol.NodeID(fmt.Sprintf("controlplane-%03d", 199-i%m.busy))
		}
		entries = append(entries, e)
	}
	written, err := json.Marshal(httpapi.NewEntries(entries))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Folded, Unfolded, Again []string
		Says                    string
		Rows                    int
	}
	if err := b.Eval(t.Context(), fmt.Sprintf(`(() => {
		past = %s; document.getElementById("past").open = true; lanes(shown);
		const names = () => [...document.querySelectorAll("#lanes svg text > title")].map((t) => t.textContent), says = document.querySelector("#folded span").textContent;
		const button = document.querySelector("#folded button"), folded = names();
		button.click();
		const unfolded = names();
		button.click();
		return {folded, unfolded, again: names(), says, rows: document.querySelectorAll("#past tbody tr").length};
	})()`, written), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Folded) != m.drawn || len(got.Unfolded) != 200 || !slices.Equal(got.Again, got.Folded) || got.Says != m.says || got.Rows != m.entries ||
		m.busy > 0 && got.Folded[0] != fmt.Sprintf("controlplane-%03d", 200-m.busy) {
		t.Errorf("%d busy: got the lanes %v (all: %d), %q, %d rows; want %d, %q", m.busy, got.Folded, len(got.Unfolded), got.Says, got.Rows, m.drawn, m.says)
	}
}

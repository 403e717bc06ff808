package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
	"github.com/lockstep-dev/lockstep/test/page"
)

// noonOf is the time at which the page of the lanes is looked at.
var noonOf = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// story is the history of the hour before.
type story struct {
	name, release string // current one of all nodes
	leader        string
	entries       []history.Entry
	// The numbers of parts of each class in the picture.
	out, planned, leads, brackets, working, turns int
	noImage                                       bool     // in the docs
	says                                          []string // the texts of the parts
}

// timeOf is a time of the story.
func timeOf(minute float64) time.Time {
	return noonOf.Add(-time.Hour).Add(time.Duration(minute * float64(time.Minute)))
}

func entry(kind history.Kind, node protocol.NodeID, from, to float64, reason protocol.Reason, message string) history.Entry {
	e := history.Entry{ID: fmt.Sprint(kind, node, from), Time: timeOf(from), Kind: kind, Node: node, Reason: reason, Message: message, Count: 1}
	if to >= 0 {
		e.Until = timeOf(to)
	}
	return e
}

// moves are the entries of a change of the release of all nodes.
func moves(from, to string, kind history.Kind) []history.Entry {
	out := []history.Entry{entry(kind, "", 20, 41, history.Done, "releases "+from+" and "+to+", objects of "+from+" when it began")}
	for i, node := range []protocol.NodeID{"cp-1", "cp-2", "cp-3"} {
		begin := 20 + 7*float64(i)
		out = append(out, entry(history.Gate, node, begin, begin+1, protocol.ShuttingDown, "the sidecar is stopping"),
			entry(history.Node, node, begin+1, begin+1, history.Changed, "registered with release "+to+" (before: "+from+")"),
			entry(history.Sidecar, node, begin+1, begin+2, history.Started, "the sidecar started, with a closed gate"))
	}
	return append(out,
		entry(history.Leader, "cp-1", 22, 22, history.Elected, "it leads, after cp-3"),
		entry(history.Status, "cp-1", 36, 36, history.Changed, "WORKING "+to+", minimum "+from+" (before: DONE "+from+", minimum "+from+")"),
		entry(history.Status, "cp-1", 41, 41, history.Changed, "DONE "+to+", minimum "+to+" (before: WORKING "+to+", minimum "+from+")"))
}

// stuck is an upgrade whose objects fail after all nodes serve, and an outage meanwhile.
func stuck() []history.Entry {
	out := moves("1.0.0", "1.1.0", history.Upgrade)
	out[0].Until, out[0].Spans, out[0].Objects = time.Time{}, []history.Span{{From: timeOf(20), Until: timeOf(36)}}, []string{"ConfigMap kube-system/x"}
	return append(out[:len(out)-1], entry(history.APIServer, "cp-3", 50, 52, "APIServerNotReady", "its kube-apiserver does not answer"))
}

var stories = []story{
	{
		name: "an upgrade that waits", release: "1.1.0", leader: "cp-1", entries: stuck(), out: 1, planned: 6, leads: 2, brackets: 1, working: 1, noImage: true,
		says: []string{"the objects are not complete (failed: ConfigMap kube-system/x)"},
	},
	{
		name: "an upgrade", release: "1.1.0", leader: "cp-1", entries: moves("1.0.0", "1.1.0", history.Upgrade), planned: 6, leads: 2, brackets: 1, working: 1,
		says: []string{"upgrade", "for 21 min", "cp-2 did not serve: ShuttingDown", "WORKING 1.1.0, minimum 1.0.0"},
	},
	{
		name: "a rollback", release: "1.0.0", leader: "cp-1", entries: moves("1.1.0", "1.0.0", history.Rollback), planned: 6, leads: 2, brackets: 1, working: 1,
		says: []string{"releases 1.1.0 and 1.0.0"},
	},
	{
		name: "a night with faults", release: "1.0.0", leader: "cp-2", out: 4, leads: 2, turns: 1,
		entries: []history.Entry{
			entry(history.Gate, "cp-2", 3, 5, protocol.NotRegistered, "its lease has ended, because etcd did not answer: see the disk"),
			entry(history.APIServer, "cp-3", 12, 14, "APIServerNotReady", "the check etcd of its kube-apiserver fails"),
			entry(history.Node, "cp-1", 30, 44, protocol.NoPresence, "its sidecar does not run, or does not reach etcd"),
			entry(history.Leader, "cp-2", 31, 31, history.Elected, "it leads, after cp-1"),
			entry(history.Turn, "cp-2", 46, 48, warn.TurnUnderWay, "planned work: systemctl restart kube-apiserver, by root@cp-2"),
			entry(history.Service, "cp-3", 50, 50, history.Restarted, "the service kube-apiserver was started again: exit code 137"),
			entry(history.APIServer, "cp-3", 50, -1, "APIServerNotReady", "its kube-apiserver does not answer"),
		},
		says: []string{"cp-1 did not serve: NoPresence", "for 14 min", "it goes on", "because etcd did not answer"},
	},
}

// raw is the status of a fleet of three nodes.
func (s story) raw() json.RawMessage {
	var nodes []string
	for _, id := range []string{"cp-1", "cp-2", "cp-3"} {
		nodes = append(nodes, fmt.Sprintf(`{"id": %q, "release": %q, "alive": true, "ready": true, "reason": "Ready", "roles": ["kubernetes_controller"], "warnings": []}`, id, s.release))
	}
	return json.RawMessage(fmt.Sprintf(`{"node": {"id": "cp-2", "release": %q, "roles": ["kubernetes_controller"]}, "ready": {"ready": true, "reason": "Ready", "message": "this node serves"},
		"reconciler": {"kind": "present", "state": "DONE", "version": %q, "minimumCompatibleRelease": %q}, "election": {"state": "leading", "leader": %q, "step": {}},
		"etcd": {"connected": true}, "upgradeReady": true, "fleet": {"maxRelease": %q, "minRelease": %q, "nodes": [%s]}}`,
		s.release, s.release, s.release, s.leader, s.release, s.release, strings.Join(nodes, ",")))
}

// serveHistory serves the page of a node whose journal contains the entries.
func serveHistory(t *testing.T, entries []history.Entry) string {
	t.Helper()
	api, err := httpapi.New(httpapi.Config{
		Snapshot: event.New(httpapi.Snapshot{}), Log: slog.New(slog.DiscardHandler),
		History: func(context.Context) []history.Entry { return entries },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// drawn counts the parts of the picture.
type drawn struct {
	Out, Planned, Leads, Brackets, Working, Turns int
	Says                                          []string
	Rows                                          int // of the table
	Names                                         []string
	Bytes                                         int
}

const picture = `(() => {
	document.getElementById("past").open = true;
	list();
	const svg = document.querySelector("#lanes svg"), n = (c) => svg.querySelectorAll("." + c).length;
	return {out: n("out"), planned: n("planned"), leads: n("leads"), brackets: n("bracket"), working: n("working"), turns: n("turn"),
		says: [...svg.querySelectorAll("[tabindex]")].map((p) => p.getAttribute("aria-label")),
		rows: document.querySelectorAll("#past tbody tr").length, names: [...svg.querySelectorAll("text > title")].map((t) => t.textContent)};
})()`

// TestLanes draws an upgrade, a rollback and a night with faults on every screen: each part can be selected by
// keyboard, is named for a screen reader, and explains itself; and the table lists all entries.
func TestLanes(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			url := serveHistory(t, s.entries)
			b := startBrowser(t)
			if err := b.Open(t.Context(), url); err != nil {
				t.Fatal(err)
			}
			stopFetching(t, b)
			entries, err := json.Marshal(httpapi.NewEntries(s.entries))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range append([]page.View{desk}, views...) {
				if err := b.Resize(t.Context(), v); err != nil {
					t.Fatal(err)
				}
				showReport(t, b, report{s.name, s.raw(), noonOf})
				if err := b.Eval(t.Context(), fmt.Sprintf("past = %s; document.getElementById('past').open = false; lanes(shown); scrollTo(0, 0)", entries), nil); err != nil {
					t.Fatal(err)
				}
				if v == desk && !s.noImage {
					writeImage(t, b, "page-"+s.name[strings.LastIndex(s.name, " ")+1:]+"-lanes.png")
				}
				s.wantDrawn(t, b) // it opens the list
				wantLayout(t, b, fmt.Sprintf("%s at %d", s.name, v.Width))
				takeShot(t, b, strings.ReplaceAll(s.name, " ", "-"), v)
			}
			s.wantKeyboard(t, b)
			s.wantTouch(t, b)
		})
	}
}

// stopFetching lets the page finish what it fetches, and fetch nothing more: its entries are of the time of this
// machine, and the pictures are of noon.
func stopFetching(t *testing.T, b *page.Browser) {
	t.Helper()
	var fetched bool
	if err := b.Eval(t.Context(), `(async () => {
		for (let i = 0; past === null && i < 400; i++) await new Promise((done) => setTimeout(done, 50));
		fetch = () => new Promise(() => {});
		return past !== null;
	})()`, &fetched); err != nil || !fetched {
		t.Fatalf("the page fetched its history: %t, %v", fetched, err)
	}
}

func (s story) wantDrawn(t *testing.T, b *page.Browser) {
	t.Helper()
	var got drawn
	if err := b.Eval(t.Context(), picture, &got); err != nil {
		t.Fatal(err)
	}
	if got.Out != s.out || got.Planned != s.planned || got.Leads != s.leads || got.Brackets != s.brackets || got.Working != s.working || got.Turns != s.turns {
		t.Errorf("%s: got %+v, want %+v", s.name, got, s)
	}
	if got.Rows != len(s.entries) || strings.Join(got.Names, " ") != "cp-1 cp-2 cp-3" {
		t.Errorf("%s: got %d rows of %d, and the lanes %v", s.name, got.Rows, len(s.entries), got.Names)
	}
	all := strings.Join(got.Says, "\n")
	for _, text := range s.says {
		if !strings.Contains(all, text) {
			t.Errorf("%s: no part says %q:\n%s", s.name, text, all)
		}
	}
}

// wantKeyboard requires that the focus explains a part, and stays with it when the picture is drawn again.
func (s story) wantKeyboard(t *testing.T, b *page.Browser) {
	t.Helper()
	var got struct{ Note, Label, Again string }
	if err := b.Eval(t.Context(), `(() => {
		const parts = [...document.querySelectorAll("#lanes svg [tabindex]")], last = parts.at(-1);
		last.focus();
		const label = last.getAttribute("aria-label"), note = document.getElementById("note").textContent;
		lanes(shown);
		return {note, label, again: document.activeElement.getAttribute("aria-label")};
	})()`, &got); err != nil {
		t.Fatal(err)
	}
	if got.Note != got.Label || got.Label == "" || got.Again != got.Label {
		t.Errorf("%s: got %+v", s.name, got)
	}
}

// wantTouch requires that a finger which misses an outage or a plan by a few pixels selects it, and one far from all parts none.
func (s story) wantTouch(t *testing.T, b *page.Browser) {
	t.Helper()
	var got struct{ Near, Label, Far string }
	if err := b.Eval(t.Context(), `(() => {
		const svg = document.querySelector("#lanes svg"), part = svg.querySelector(".out, .planned"), at = part.getBoundingClientRect(), all = svg.getBoundingClientRect();
		const touch = (clientX, clientY) => {
			document.getElementById("note").textContent = "";
			svg.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, clientX, clientY}));
			return document.getElementById("note").textContent;
		};
		return {near: touch(at.left - 5, at.top + 6), label: part.getAttribute("aria-label"), far: touch(all.left, all.bottom)};
	})()`, &got); err != nil {
		t.Fatal(err)
	}
	if got.Near != got.Label || got.Label == "" || got.Far != "" {
		t.Errorf("%s: got %+v", s.name, got)
	}
}

// TestLanes_young: the picture of a control plane that began 30 minutes ago begins with it, and a status that was lost leaves
// a gap.
func TestLanes_young(t *testing.T) {
	entries := []history.Entry{
		entry(history.Status, "cp-1", 30, 30, history.Changed, "WORKING 1.0.0, minimum 0.0.0 (before: no status)"),
		entry(history.Status, "cp-1", 33, 33, history.Changed, "DONE 1.0.0, minimum 1.0.0 (before: WORKING 1.0.0, minimum 0.0.0)"),
		entry(history.Status, "", 40, 40, history.Changed, "no status (before: DONE 1.0.0, minimum 1.0.0)"),
		entry(history.Status, "cp-1", 50, 50, history.Changed, "DONE 1.0.0, minimum 1.0.0 (before: no status)"),
	}
	for _, node := range []protocol.NodeID{"cp-1", "cp-2", "cp-3"} {
		entries = append(entries, entry(history.Node, node, 30, 30, history.Registered, "registered with release 1.0.0"))
	}
	s := story{name: "a young control plane", release: "1.0.0", entries: entries}
	url := serveHistory(t, nil) // first: it waits at the end until the browser has gone
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	stopFetching(t, b)
	showReport(t, b, report{s.name, s.raw(), noonOf})
	written, err := json.Marshal(httpapi.NewEntries(entries))
	if err != nil {
		t.Fatal(err)
	}
	var minutes []int // of the 30, in which the bars begin and end
	if err := b.Eval(t.Context(), fmt.Sprintf(`(() => {
		past = %s;
		lanes(shown);
		const bars = [...document.querySelectorAll('#lanes svg rect[height="14"]:not(.working)')], number = (bar, name) => Number(bar.getAttribute(name));
		const axis = document.querySelector("#lanes svg .axis").getAttribute("d").match(/M(\S+) .*H(\S+)/), left = Number(axis[1]), width = Number(axis[2]) - left;
		return bars.flatMap((bar) => [number(bar, "x"), number(bar, "x") + number(bar, "width")].map((x) => Math.round((x - left) / width * 30)));
	})()`, written), &minutes); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 3, 3, 10, 20, 30, 0, 30, 0, 30, 0, 30}; !slices.Equal(minutes, want) {
		t.Errorf("got bars in the minutes %v, want %v", minutes, want)
	}
}

// TestLanes_fetched: the page asks for the history by itself, of the time that is selected, and of a fleet of 200 nodes it
// draws only lanes of nodes with entries.
func TestLanes_fetched(t *testing.T) {
	now := time.Now()
	url := serveHistory(t, []history.Entry{
		{ID: "1", Time: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour - time.Minute), Kind: history.Gate, Node: "cp-150", Reason: protocol.NotRegistered, Message: "old", Count: 1},
		{ID: "2", Time: now.Add(-time.Minute), Kind: history.Gate, Node: "cp-007", Reason: protocol.NotRegistered, Message: "new", Count: 1},
	})
	b := startBrowser(t)
	if err := b.Open(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	const fill = `show({node: {id: "cp-000"}, fleet: {nodes: Array.from({length: 200}, (_, i) => ({id: "cp-" + String(i).padStart(3, "0"), alive: true, ready: true, release: "1.0.0", roles: ["kubernetes_controller"]}))}})`
	const await = `(async () => {
		for (let i = 0; i < 200; i++) {
			const names = [...document.querySelectorAll("#lanes svg text > title")].map((t) => t.textContent).join(" ");
			if (names === %q) return names;
			await new Promise((done) => setTimeout(done, 50));
		}
		return [...document.querySelectorAll("#lanes svg text > title")].map((t) => t.textContent).join(" ");
	})()`
	if err := b.Eval(t.Context(), fill, nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ script, names string }{
		{"undefined", "cp-007"}, {`document.querySelectorAll("#lanes button")[1].click()`, "cp-007 cp-150"},
	} {
		if err := b.Eval(t.Context(), step.script, nil); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := b.Eval(t.Context(), fmt.Sprintf(await, step.names), &got); err != nil || got != step.names {
			t.Errorf("after %s: got the lanes %q, %v, want %q", step.script, got, err, step.names)
		}
	}
	var hidden bool
	if err := b.Eval(t.Context(), `past = null; lanes(shown); document.getElementById("lanes").hidden`, &hidden); err != nil || !hidden {
		t.Errorf("a client that may not read the history is shown one: %t, %v", hidden, err)
	}
}

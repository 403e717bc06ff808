package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// piece is a time in which something had one value.
type piece struct {
	Span
	value string
}

// changed is a change of a value, as the message of an entry has it.
type changed struct {
	at          time.Time
	now, before string
}

// changesOf reads the changes from the messages of entries.
func changesOf(entries []Entry, of func(Entry) bool, valid func(string) bool) (out []changed) {
	for _, e := range entries {
		now, before, _ := strings.Cut(strings.TrimPrefix(e.Message, registeredWith), " (before: ")
		before = strings.TrimSuffix(before, ")")
		if of(e) && valid(now) && (before == "" || valid(before)) {
			out = append(out, changed{e.Time, now, before})
		}
	}
	return out
}

// isStatus reports whether a text is one of Brief.
func isStatus(text string) bool {
	state, rest, _ := strings.Cut(text, " ")
	version, minimum, found := strings.Cut(rest, ", minimum ")
	return text == noStatus || text == corruptStatus ||
		(state == "WORKING" || state == "DONE") && found && !strings.ContainsAny(version+minimum, " ,")
}

func isRelease(text string) bool { return text != "" && !strings.ContainsAny(text, " ,") }

// pieces goes back from the value of now. A time whose value is unknown has no piece.
func (p Picture) pieces(changes []changed, now string) (out []piece) {
	until := p.To
	add := func(from time.Time, value string) {
		if value != "" {
			out = append(out, piece{Span{from, until}, value})
		}
		until = from
	}
	for _, c := range slices.Backward(changes) {
		if !c.at.After(p.From) {
			break
		}
		if c.at.Before(until) {
			add(c.at, now)
		}
		now = c.before
	}
	add(p.From, now)
	slices.Reverse(out)
	return out
}

func statusPieces(p Picture) []piece {
	changes := changesOf(p.Entries, func(e Entry) bool { return e.Kind == Status }, isStatus)
	now := p.Status
	if now == "" && len(changes) > 0 {
		now = changes[len(changes)-1].now
	}
	return p.pieces(changes, now)
}

func releasePieces(p Picture, id protocol.NodeID) []piece {
	return p.pieces(changesOf(p.Entries, func(e Entry) bool {
		return e.Kind == Node && e.Node == id && strings.HasPrefix(e.Message, registeredWith)
	}, isRelease), p.Releases[id])
}

// changes draws the upgrades and rollbacks, and writes beside each how long it took.
func (p painter) changes(within []Entry) []rune {
	cells := slices.Repeat([]rune{Nothing}, p.width)
	for _, e := range within {
		if ofRelease(e) {
			p.change(cells, e)
		}
	}
	for _, e := range within {
		if ofRelease(e) {
			p.nameChange(cells, e)
		}
	}
	return cells
}

// change paints an upgrade or a rollback. What nodes do later than in its first part has other causes.
func (p painter) change(cells []rune, e Entry) {
	if e.rolledOut() {
		p.paint(cells, Span{e.Spans[0].Until, e.Until}, Objects)
		e.Until = e.Spans[0].Until
	}
	p.paint(cells, e.whole(), Upgrades)
}

// nameChange writes the kind and the duration of an upgrade or a rollback after it or before it, where nothing is drawn, or
// else within it.
func (p painter) nameChange(cells []rune, e Entry) {
	text := []rune(" " + string(e.Kind) + " " + e.took(p.to) + " ")
	first, last := p.cell(e.Time), p.cell(e.End(p.to))
	for _, at := range []int{last + 1, first - len(text)} {
		if at >= 0 && at+len(text) <= len(cells) && allAre(cells[at:at+len(text)], Nothing) {
			copy(cells[at:], text)
			return
		}
	}
	if at := first + (last+1-first-len(text))/2; at > first && allAre(cells[at:at+len(text)], cells[at]) {
		copy(cells[at:], text)
	}
}

// took is how long the nodes took, and then the objects, if people may wonder.
func (e Entry) took(now time.Time) string {
	brief := func(d time.Duration) string {
		text := short(d)
		if strings.Contains(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		return text
	}
	switch {
	case e.objectsWaited():
		return brief(e.Spans[0].Until.Sub(e.Time)) + ", objects " + brief(e.Until.Sub(e.Spans[0].Until))
	case e.rolledOut() && e.Open():
		return brief(e.Spans[0].Until.Sub(e.Time)) + ", objects wait"
	case e.Open():
		return brief(now.Sub(e.Time)) + " so far"
	}
	return brief(e.Until.Sub(e.Time))
}

// status draws the band of the status. WORKING, which is short, is drawn over DONE.
func (p painter) status(all []piece) []rune {
	cells, owner := slices.Repeat([]rune{Unknown}, p.width), slices.Repeat([]int{-1}, p.width)
	for _, working := range []bool{false, true} {
		for i, s := range all {
			if strings.HasPrefix(s.value, "WORKING") != working {
				continue
			}
			fill := Nothing
			switch {
			case working:
				fill = Working
			case !strings.HasPrefix(s.value, "DONE"):
				fill = Unknown
			}
			for at := p.cell(s.From); at <= max(p.cell(s.From), p.cell(s.Until)-1) || s.Until.Equal(p.to) && at < p.width; at++ {
				cells[at], owner[at] = fill, i
			}
		}
	}
	for i, s := range all {
		writeFirst(cells, func(at int) bool { return owner[at] == i }, namesOf(s.value))
	}
	return cells
}

// namesOf are a status and shorter forms of it. The last one fits everywhere.
func namesOf(status string) []string {
	state, rest, _ := strings.Cut(status, " ")
	version, _, _ := strings.Cut(rest, ",")
	if !strings.Contains(status, ",") {
		return []string{status, "?"}
	}
	return []string{status, fmt.Sprintf("%s %s", state, version), state, state[:1]}
}

// releases writes the releases of a node where it served with them, if there were several.
func (p painter) releases(cells []rune, all []piece) {
	if len(all) < 2 {
		return
	}
	for _, r := range all {
		first, last := p.cell(r.From), p.cell(r.Until)
		writeFirst(cells, func(at int) bool { return at >= first && at <= last && cells[at] == Serves }, []string{r.value})
	}
}

// writeFirst writes the first of the names that fits where the cells are free, with a free cell after it unless it is of one rune.
func writeFirst(cells []rune, free func(int) bool, names []string) {
	for _, name := range names {
		text := []rune(name)
		room := len(text) + 1
		if len(text) == 1 {
			room = 1
		}
		run := 0
		for at := range cells {
			if run++; !free(at) {
				run = 0
			}
			if run == room {
				copy(cells[at+1-room:], text)
				return
			}
		}
	}
}

func allAre(cells []rune, want rune) bool {
	return !slices.ContainsFunc(cells, func(r rune) bool { return r != want })
}

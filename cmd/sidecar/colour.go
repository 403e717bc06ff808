package main

import (
	"regexp"
	"strings"
)

// colour is a code of SGR, as terminals know it. The empty one leaves the text as it is.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// colourMark paints the beginning of a text.
type colourMark struct {
	begin string
	as    colour
}

// rowMarks are the marks of rows with a title: the first that fits counts.
func rowMarks(title string) []colourMark {
	switch title {
	case "GATE":
		return []colourMark{{"NOT READY", red}, {"NOT IN SERVICE", red}, {"OVERRIDDEN", yellow}, {"ready", green}}
	case "STATUS":
		return []colourMark{{"corrupt", red}, {"DONE", green}, {"WORKING", yellow}}
	case "UPGRADE":
		return []colourMark{
			{"do not start the next upgrade", yellow},
			{"the next upgrade may start; but see", yellow},
			{"the next upgrade may start", green},
		}
	case "ETCD":
		return []colourMark{{"NOT CONNECTED", red}, {"connected, but", yellow}, {"connected", green}}
	case "":
		return []colourMark{{"last error", red}}
	}
	return nil
}

// columnMarks are the marks of columns with a head.
func columnMarks(head string) []colourMark {
	switch head {
	case "GATE":
		return []colourMark{{"ready", green}, {"-", plain}, {"", red}}
	case "ALIVE":
		return []colourMark{{"yes", plain}, {"no", red}}
	case "READY":
		return []colourMark{{"yes", green}, {"no", red}}
	case "HEALTH":
		return []colourMark{{"healthy", green}, {"", red}}
	case "BLOCKS":
		return []colourMark{{"BLOCKS", yellow}}
	case "RESULT":
		return []colourMark{{"ok", green}, {"", red}}
	}
	return nil
}

// painted returns cell i in its colour. Head is the first row of its table.
func (s screen) painted(head, cells []string, i int) string {
	cell := cells[i]
	if !s.coloured || i >= len(head) || cell == head[i] {
		return cell
	}
	for _, m := range columnMarks(head[i]) {
		if strings.HasPrefix(cell, m.begin) {
			return s.paint(cell, m.as)
		}
	}
	if i != 1 {
		return cell
	}
	for _, m := range rowMarks(cells[0]) {
		if rest, found := strings.CutPrefix(cell, m.begin); found {
			return s.paint(m.begin, m.as) + rest
		}
	}
	return cell
}

// paint returns a text in a colour, if the screen shows colours.
func (s screen) paint(text string, as colour) string {
	if !s.coloured || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// colourCode matches the codes that paint adds to a text.
var colourCode = regexp.MustCompile("\x1b\\[[0-9;]*m")

// titleColour is the colour of a section's title.
func titleColour(title string) colour {
	switch title {
	case "NOT READY", "FAILURES":
		return red
	case "BLOCKERS", "FIGHTS", "WARNINGS", "OBSTACLES", "STRANGERS":
		return yellow
	}
	return bold
}

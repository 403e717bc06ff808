package terminal

import (
	"regexp"
	"strings"
)

// Colour is a code of SGR, as terminals know it. The empty one leaves the text as it is.
type Colour string

// The colours of a text; plain leaves it as it is.
const (
	plain  Colour = ""
	bold   Colour = "1"
	Red    Colour = "31"
	green  Colour = "32"
	yellow Colour = "33"
)

// colourMark paints the beginning of a text.
type colourMark struct {
	begin string
	as    Colour
}

// rowMarks are the marks of rows with a title: the first that fits counts.
func rowMarks(title string) []colourMark {
	switch title {
	case "GATE":
		return []colourMark{{"NOT READY", Red}, {"NOT IN SERVICE", Red}, {"OVERRIDDEN", yellow}, {"ready", green}}
	case "STATUS":
		return []colourMark{{"corrupt", Red}, {"DONE", green}, {"WORKING", yellow}}
	case "UPGRADE":
		return []colourMark{
			{"do not start the next upgrade", yellow},
			{"the next upgrade may start; but see", yellow},
			{"the next upgrade may start", green},
		}
	case "ETCD":
		return []colourMark{{"NOT CONNECTED", Red}, {"connected, but", yellow}, {"connected", green}}
	case "":
		return []colourMark{{"last error", Red}}
	}
	return nil
}

// columnMarks are the marks of columns with a head.
func columnMarks(head string) []colourMark {
	switch head {
	case "GATE":
		return []colourMark{{"ready", green}, {"-", plain}, {"", Red}}
	case "ALIVE":
		return []colourMark{{"yes", plain}, {"no", Red}}
	case "READY":
		return []colourMark{{"yes", green}, {"no", Red}}
	case "HEALTH":
		return []colourMark{{"healthy", green}, {"", Red}}
	case "BLOCKS":
		return []colourMark{{"BLOCKS", yellow}}
	case "RESULT":
		return []colourMark{{"ok", green}, {"", Red}}
	}
	return nil
}

// problemTitle is the title of the row that says what is down.
const problemTitle = "PROBLEM"

// painted returns cell i in its colour. Head is the first row of its table.
func (s Screen) painted(head, cells []string, i int) string {
	cell := cells[i]
	if !s.Coloured || i >= len(head) {
		return cell
	}
	if i == 0 && cell == problemTitle {
		return s.Paint(cell, Red)
	}
	if i == 1 {
		for _, m := range rowMarks(cells[0]) {
			if rest, found := strings.CutPrefix(cell, m.begin); found {
				return s.Paint(m.begin, m.as) + rest
			}
		}
	}
	if cell == head[i] {
		return cell
	}
	for _, m := range columnMarks(head[i]) {
		if strings.HasPrefix(cell, m.begin) {
			return s.Paint(cell, m.as)
		}
	}
	return cell
}

// Paint returns a text in a colour, if the screen shows colours.
func (s Screen) Paint(text string, as Colour) string {
	if !s.Coloured || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// ColourCode matches the codes that Paint adds to a text.
var ColourCode = regexp.MustCompile("\x1b\\[[0-9;]*m")

// titleColour is the colour of a section's title.
func titleColour(title string) Colour {
	switch title {
	case "NOT READY", "FAILURES":
		return Red
	case "BLOCKERS", "FIGHTS", "WARNINGS", "OBSTACLES", "STRANGERS":
		return yellow
	}
	return bold
}

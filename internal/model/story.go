package model

import (
	"fmt"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

// story describes the moves in words. A node keeps its name, wherever
// sortNodes moves it.
type story struct {
	lines []string
	names [maxNodes]string // by place
}

// say adds to the story, if there is one. Text that starts with two spaces
// continues the last line.
func (t *transition) say(format string, args ...any) {
	if t.story == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	lines := &t.story.lines
	if strings.HasPrefix(text, "  ") && len(*lines) > 0 {
		(*lines)[len(*lines)-1] += " " + strings.TrimSpace(text)
		return
	}
	*lines = append(*lines, text)
}

// name is the name of a node in the story.
func (t *transition) name(i int) string {
	if t.story == nil {
		return ""
	}
	return t.story.names[i]
}

func (t *transition) nameOf(id protocol.NodeID) string {
	for i := range t.cfg.Nodes {
		if nodeID(i) == id {
			return t.name(i)
		}
	}
	return string(id)
}

func (t *transition) statusText(s status) string {
	if t.story == nil {
		return ""
	}
	return fmt.Sprintf("%s version %d, minimum %d, content of %s at epoch %d",
		s.state, s.version, s.least, t.stampText(s.content.content), s.content.epoch)
}

// contentText names a content. It is empty in a search without a story.
func (t *transition) contentText(content uint8) string {
	if t.story == nil {
		return ""
	}
	if t.cfg.Builds == 1 {
		return fmt.Sprintf("release %d", t.cfg.releaseOf(content))
	}
	return fmt.Sprintf("release %d, build %s", t.cfg.releaseOf(content), t.cfg.digest(content))
}

func (t *transition) stampText(content uint8) string {
	switch {
	case content == 0:
		return "nothing"
	case int(content) > t.cfg.contents():
		return fmt.Sprintf("release %d, digest unknown,", t.cfg.releaseOf(content))
	}
	return t.contentText(content)
}

func (t *transition) markText(p parent) string {
	if t.story == nil {
		return ""
	}
	var parts []string
	for _, e := range p.entries {
		if e != (entry{}) {
			parts = append(parts, fmt.Sprintf("%s at epoch %d", t.stampText(e.content), e.epoch))
		}
	}
	return fmt.Sprintf("firstDone=%t, %s", p.firstDone, strings.Join(parts, " and "))
}

// replay makes the moves of a path again and writes the story. It returns why the
// last transition broke an invariant.
func (s *search) replay(path []uint16) (lines []string, why string) {
	told := &story{}
	for i := range told.names {
		told.names[i] = string(nodeID(i))
	}
	st := s.root()
	for _, k := range path {
		t := s.transition(&st)
		t.story = told
		if !t.apply(s.moves[k]) {
			return append(told.lines, "(the path ends here: the move is not possible)"), ""
		}
		if _, why = s.broken(&t); why != "" {
			break
		}
		t.story = nil
		went := t.canonical()
		names := told.names
		for from, to := range went {
			told.names[to] = names[from]
		}
	}
	return told.lines, why
}

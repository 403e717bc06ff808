package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// maxObjects bounds the objects that an entry names.
	maxObjects = 3
	// maxName bounds the name of an object in an entry.
	maxName = 80
	// maxNamed bounds the names that a ledger remembers for an entry.
	maxNamed = 1000
)

// name adds the objects of a happening to an entry. An object that was named before does not count again.
func (h *Held) name(o Happening) {
	if h.counted == nil {
		h.counted = map[string]bool{}
	}
	for _, object := range o.Objects {
		switch text := protocol.Cut(object, maxName); {
		case h.counted[object], slices.Contains(h.Objects, text): // again
		case len(h.Objects) < maxObjects:
			h.Objects = append(slices.Clip(h.Objects), text)
		default:
			h.More++
		}
		if len(h.counted) < maxNamed {
			h.counted[object] = true
		}
	}
	if len(o.Objects) > 0 {
		h.More += max(0, o.Count-len(o.Objects))
	}
}

// named lists the objects of an entry.
func (e Entry) named() string {
	if len(e.Objects) == 0 {
		return ""
	}
	text := ": " + strings.Join(e.Objects, ", ")
	if e.More > 0 {
		text += fmt.Sprintf(" and %d more", e.More)
	}
	return text
}

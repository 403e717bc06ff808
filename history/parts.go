package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Part is one of the messages of an entry that joins several outages, or whose reason changed while it lasted.
type Part struct {
	Message string `json:"message,omitempty"` // empty: the entry has it
	// At are times at which it began, in milliseconds: the first, and the newest.
	At []int64 `json:"at"`
}

const (
	// maxParts and maxTimes bound the parts of an entry, and the times of one.
	maxParts = 4
	maxTimes = 6
	// elided is in place of messages that an entry has no room for.
	elided = "…"
)

// joinsMessages reports whether an entry keeps each message that it has had, with its time. Others show the newest.
func joinsMessages(e Entry) bool { return OutOfService(e) || e.Kind == Etcd || e.Kind == Service }

// say records that a message holds from a moment on. Messages stay in the order of their first times, so the sentence of an entry
// only becomes longer.
func (e *Entry) say(at time.Time, message string) {
	if !joinsMessages(*e) {
		e.Message = message
		return
	}
	if len(e.Parts) == 0 {
		if message == e.Message {
			return
		}
		e.Parts = []Part{{At: e.beganBefore(at)}}
	}
	e.Parts = slices.Clone(e.Parts) // a copy of the entry may be on its way to the store
	i := slices.IndexFunc(e.Parts, func(p Part) bool { return p.text(*e) == message })
	if i < 0 {
		e.Parts = append(e.Parts, Part{Message: message})
		i = len(e.Parts) - 1
	}
	e.Parts[i].began(at.UnixMilli())
	e.boundParts()
}

// sayReason is say for another reason while the entry lasts, once in each of its times. It reports whether that is news.
func (e *Entry) sayReason(at time.Time, reason, message string) bool {
	all := e.stretches()
	now := all[len(all)-1].Span
	for _, p := range e.Parts {
		if !strings.HasPrefix(p.text(*e), reason+": ") {
			continue
		}
		if p.within(now) {
			return false
		}
		e.say(at, p.text(*e))
		return true
	}
	e.say(at, clip(reason+": "+message))
	return true
}

// beganBefore returns when the only message of an entry began, as far as it is known.
func (e Entry) beganBefore(at time.Time) []int64 {
	only := Part{At: []int64{e.Time.UnixMilli()}}
	for _, s := range e.Spans {
		if s.From.After(e.Time) && s.From.Before(at) {
			only.began(s.From.UnixMilli())
		}
	}
	return only.At
}

func (p *Part) began(at int64) {
	p.At = append(slices.Clip(p.At), at)
	if len(p.At) > maxTimes { // the first one stays
		p.At = slices.Delete(slices.Clone(p.At), 1, 2)
	}
}

// boundParts makes room. The entry's own message, which explains its reason, and the newest stay.
func (e *Entry) boundParts() {
	size := func() (n int) {
		for _, p := range e.Parts {
			n += len(p.text(*e))
		}
		return n
	}
	for len(e.Parts) > 2 && (len(e.Parts) > maxParts || size() > MaxMessage) {
		if e.Parts[1].Message != elided {
			e.Parts[1].Message = elided
		} else if len(e.Parts) > 3 {
			e.Parts = slices.Delete(e.Parts, 2, 3)
		} else {
			break
		}
	}
	if size() > MaxMessage {
		last := &e.Parts[len(e.Parts)-1]
		last.Message = protocol.Cut(last.Message, MaxMessage/2-len(elided))
		e.Message = protocol.Cut(e.Message, MaxMessage/2)
	}
}

// says reports whether an entry has a reason, as its own or later.
func (e Entry) says(reason string) bool {
	return string(e.Reason) == reason || slices.ContainsFunc(e.Parts, func(p Part) bool {
		return strings.HasPrefix(p.Message, reason+": ")
	})
}

func (p Part) text(of Entry) string {
	if p.Message == "" {
		return of.Message
	}
	return p.Message
}

// within reports whether the part began in a span.
func (p Part) within(s Span) bool {
	return slices.ContainsFunc(p.At, func(at int64) bool {
		return at >= s.From.UnixMilli() && (s.open() || at <= s.Until.UnixMilli())
	})
}

// laterParts are the messages after the first one, each with the time at which it began first.
func (e Entry) laterParts() (out string) {
	for _, p := range e.Parts[min(1, len(e.Parts)):] {
		out += e.then(p.text(e), p.At[0])
	}
	return out
}

// then continues a sentence.
func (e Entry) then(message string, at int64) string {
	if message == elided {
		return "; " + elided
	}
	return "; then at " + e.clock(time.UnixMilli(at)) + ": " + message
}

// clock is a time of the entry, with its day if that is another one than the entry's.
func (e Entry) clock(at time.Time) string {
	const day = "2006-01-02"
	if at = at.UTC(); at.Format(day) == e.Time.UTC().Format(day) {
		return at.Format("15:04:05Z")
	}
	return stamp(at)
}

// during are the messages that held in one of the entry's times.
func (e Entry) during(s Span) string {
	type said struct {
		at   int64
		text string
	}
	var all []said
	for _, p := range e.Parts {
		for _, at := range p.At {
			if (Part{At: []int64{at}}).within(s) {
				all = append(all, said{at, p.text(e)})
			}
		}
	}
	if len(all) == 0 {
		return e.Message + e.laterParts()
	}
	if len(all) == 1 && all[0].text == elided {
		return "(there was no room for its message)"
	}
	slices.SortStableFunc(all, func(a, b said) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	text.WriteString(all[0].text)
	for _, one := range all[1:] {
		text.WriteString(e.then(one.text, one.at))
	}
	return text.String()
}

package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// NewEntries renders entries, in their order.
func NewEntries(entries []history.Entry) []report.Entry {
	out := make([]report.Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, report.Entry{
			Time: report.At(e.Time), Until: report.At(e.Until), Kind: string(e.Kind), Node: string(e.Node), Reason: string(e.Reason),
			Message: e.Sentence(), Count: e.Count, Spans: newSpans(e.Spans),
		})
	}
	return out
}

func newSpans(spans []history.Span) (out report.List[report.Span]) {
	for _, s := range spans {
		out = append(out, report.Span{Time: report.At(s.From), Until: report.At(s.Until)})
	}
	return out
}

// ParseSince parses the age of the oldest entry that people want to see: a duration like 90m or 2d.
func ParseSince(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && n >= 0 && n <= maxDays {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: must be a duration like 90m, 12h or 2d", text)
	}
	return d, nil
}

// maxDays is ample: the journal is bounded.
const maxDays = 10000

// ParseKind reads a kind of entries.
func ParseKind(text string) (history.Kind, error) {
	if kind := history.Kind(text); text == "" || slices.Contains(history.Kinds(), kind) {
		return kind, nil
	}
	var names []string
	for _, k := range history.Kinds() {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("%q: must be one of %s", text, strings.Join(names, ", "))
}

// history lists the entries of the journal.
func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	filter, err := historyFilter(r, time.Now())
	if err != nil {
		s.problem(w, http.StatusBadRequest, err.Error())
		return
	}
	s.replyJSON(w, http.StatusOK, NewEntries(filter.Filtered(s.cfg.History(r.Context()))))
}

// recording sends the recording of the flight recorder.
func (s *Server) recording(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/gzip")
	if r.Method == http.MethodHead {
		return
	}
	if _, err := s.cfg.Recording(w); err != nil {
		s.log.Debug("a recording was not sent", "err", err)
	}
}

// historyFilter reads ?node=, ?kind= and ?since=.
func historyFilter(r *http.Request, now time.Time) (history.Filter, error) {
	query := r.URL.Query()
	out := history.Filter{Node: protocol.NodeID(query.Get("node"))}
	var err error
	if out.Kind, err = ParseKind(query.Get("kind")); err != nil {
		return out, fmt.Errorf("kind: %w", err)
	}
	if since := query.Get("since"); since != "" {
		d, err := ParseSince(since)
		if err != nil {
			return out, fmt.Errorf("since: %w", err)
		}
		out.Since = now.Add(-d)
	}
	return out, nil
}

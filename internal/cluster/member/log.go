package member

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// repeatPause is how often the same warning or error of etcd is logged. A peer that is
	// down causes several each second.
	repeatPause = time.Minute
	// maxRemembered bounds the warnings that are remembered for that.
	maxRemembered = 256
	// maxOutput bounds the kept lines that are not of etcd's log: a panic's message and
	// the beginning of its stack.
	maxOutput = 20
)

// logReader turns etcd's log into ours, and keeps why the process ended. Its fields may
// be read once the process ended.
type logReader struct {
	log *slog.Logger

	mu       sync.Mutex // mu guards the fields below
	stopping bool       // the process was asked to stop: etcd's warnings are intended then
	logged   map[string]*repeated
	fatal    string   // the newest message that ends a process; empty: none
	panicked string   // the Go runtime's line for an end of its own; empty: none
	rest     []string // lines that are not of etcd's log
}

// repeated is a warning that was logged.
type repeated struct {
	at         time.Time
	suppressed int // since then
}

func newLogReader(log *slog.Logger) *logReader {
	return &logReader{log: cmp.Or(log, slog.New(slog.DiscardHandler)), logged: map[string]*repeated{}}
}

// read takes one line of the process's output.
func (r *logReader) read(ctx context.Context, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		r.keep(line)
		return
	}
	level, message := text(fields, "level"), text(fields, "msg")
	if level == "fatal" || level == "panic" || level == "dpanic" {
		r.fatal = message
		if cause := text(fields, "error"); cause != "" {
			r.fatal += ": " + cause
		}
	}
	for _, key := range []string{"level", "msg", "ts", "stacktrace"} {
		delete(fields, key)
	}
	r.write(ctx, level, message, fields)
}

// keep keeps a line that is not of etcd's log.
func (r *logReader) keep(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	for _, start := range []string{"panic: ", "fatal error: ", "runtime: out of memory"} {
		if r.panicked == "" && strings.HasPrefix(line, start) {
			r.panicked = line
		}
	}
	if len(r.rest) < maxOutput {
		r.rest = append(r.rest, line)
	}
}

// write logs one entry of etcd's log. It needs mu.
func (r *logReader) write(ctx context.Context, level, message string, fields map[string]any) {
	ours, known := levels[level]
	switch {
	case !known:
		ours = slog.LevelError // fatal, panic
	case r.stopping, slices.Contains(intended, message):
		ours = slog.LevelDebug
	}
	if !r.log.Enabled(ctx, ours) {
		return
	}
	attrs := make([]slog.Attr, 0, len(fields)+1)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(attrName(key), fields[key]))
	}
	if known && ours >= slog.LevelWarn {
		suppressed, due := r.repeats(message)
		if !due {
			return
		}
		if suppressed > 0 {
			attrs = append(attrs, slog.Int("suppressed", suppressed))
		}
	}
	r.log.LogAttrs(ctx, ours, message, attrs...) //nolint:sloglint // the message is etcd's
}

// levels are etcd's levels and ours. Messages of a healthy etcd are for debugging.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// intended are warnings of etcd about intended behaviour.
var intended = []string{
	"Running http and grpc server on single port. This is not recommended for production.",
	"simple token is not cryptographically signed", // etcd's own users are not used
	// Another node joins less than five seconds after the last one. It waits.
	"rejecting member add request; local member has not been connected to majority peers, reconfigure breaks active quorum",
	"bootstrap failed", // it is also why the process ends, which is logged
	// Until its first snapshot a member does not know the version of its data.
	"Failed to detect schema version",
	"Failed to detect storage schema version. Please wait till wal snapshot before upgrading cluster.",
	"failed to update storage version",
}

// stop records that the process was asked to stop.
func (r *logReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
}

// attrName returns our name of a field: keys contain no hyphens.
func attrName(field string) string {
	if field == "error" {
		return "err"
	}
	words := strings.FieldsFunc(field, func(r rune) bool { return r == '-' || r == ' ' || r == '_' })
	for i, w := range words {
		if i > 0 {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// repeats reports whether a warning is due, and how many of the same were suppressed
// since it was last logged. It needs mu.
func (r *logReader) repeats(message string) (suppressed int, due bool) {
	last, known := r.logged[message]
	switch {
	case !known && len(r.logged) >= maxRemembered:
		clear(r.logged) // some are logged again; etcd knows fewer messages
	case known && time.Since(last.at) < repeatPause:
		last.suppressed++
		return 0, false
	case known:
		suppressed = last.suppressed
	}
	r.logged[message] = &repeated{at: time.Now()}
	return suppressed, true
}

// reason returns why the process ended, as its output shows; empty: it does not.
func (r *logReader) reason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.fatal, r.panicked)
}

// output returns the lines that are not of etcd's log.
func (r *logReader) output() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.rest, "\n")
}

func text(fields map[string]any, key string) string {
	out, _ := fields[key].(string)
	return out
}

package process

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/lockstep-dev/lockstep/internal/child"
)

const (
	// maxLines bounds the number of kept lines.
	maxLines = 20
	// maxLine bounds a line in the log, in bytes. The rest of the line is dropped.
	maxLine = 16 << 10
	// maxKept bounds a kept line, in bytes.
	maxKept = 1 << 10
)

// tail keeps the newest lines.
type tail struct {
	mu    sync.Mutex // mu guards lines
	lines []string
}

func (t *tail) add(line string) {
	if len(line) > maxKept {
		line = strings.ToValidUTF8(line[:maxKept], "") + child.CutMark
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == maxLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

func (t *tail) get() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.lines...)
}

// sink writes the output of a service.
type sink struct {
	log  *slog.Logger
	file io.Writer // nil: to the log
	tail *tail

	failed bool // the last write to the file failed, and that is logged
}

// drain reads the output to its end.
func (s *sink) drain(ctx context.Context, r io.Reader) {
	if s.file == nil {
		child.Lines(r, maxLine, nil, func(line string) {
			s.tail.add(line)
			s.log.InfoContext(ctx, "output", "line", line)
		})
		return
	}
	child.Lines(r, maxLine, func(part []byte) { s.write(ctx, part) }, s.tail.add)
}

// write writes to the file. While the disk is full, the service continues and its output is lost.
func (s *sink) write(ctx context.Context, part []byte) {
	_, err := s.file.Write(part)
	if err != nil && !s.failed {
		s.log.ErrorContext(ctx, "output not written", "err", err)
	}
	s.failed = err != nil
}

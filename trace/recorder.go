package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Recorder is the flight recorder of a sidecar: it keeps the newest events, compressed, in a bounded
// memory (docs/history.md#recorder). It applies the events that it drops to a Checker, so that a
// recording begins with the state in which its first event was reported.
type Recorder struct {
	limit int // of compressed bytes
	now   func() time.Time

	mu       sync.Mutex // mu guards the fields below
	raw      bytes.Buffer
	segments [][]byte // compressed, the oldest first
	size     int      // of segments
	checker  *Checker // of all that was dropped
	dropped  bool
}

// maxRaw is how many bytes are compressed at a time. With less, the megabyte that a compressor needs would be allocated
// too often; an idle sidecar reports these in some minutes.
const maxRaw = 64 << 10

// NewRecorder returns a recorder that keeps limit bytes, and up to 64 KiB that are not compressed
// yet.
func NewRecorder(limit int) *Recorder {
	return &Recorder{limit: limit, now: time.Now, checker: newChecker()}
}

// Hook returns the hook that records. An event that cannot be recorded is left out: it never
// stops a sidecar.
func (r *Recorder) Hook() Hook {
	return func(e Event) {
		line, err := json.Marshal(Recorded{r.now().UTC(), e})
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			return
		}
		r.raw.Write(line)
		r.raw.WriteByte('\n')
		if r.raw.Len() >= maxRaw {
			r.compress()
		}
	}
}

// compress needs mu.
func (r *Recorder) compress() {
	segment := packed(r.raw.Bytes())
	r.raw = bytes.Buffer{}
	r.segments = append(r.segments, segment)
	r.size += len(segment)
	for r.size > r.limit && len(r.segments) > 1 {
		r.size -= len(r.segments[0])
		r.drop(r.segments[0])
		r.segments = append([][]byte(nil), r.segments[1:]...)
	}
}

// drop applies a segment to the state before the recording. It needs mu.
func (r *Recorder) drop(segment []byte) {
	r.dropped = true
	events, err := unpacked(bytes.NewReader(segment))
	for _, e := range events {
		err = errors.Join(err, r.checker.Apply(e.Event))
	}
	if err != nil && r.checker.problem == "" {
		r.checker.problem = err.Error()
	}
}

// packed compresses with a compressor that is not kept: it would need a megabyte.
func packed(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	return bytes.Clone(out.Bytes())
}

func unpacked(r io.Reader) ([]Recorded, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("decompress the recording: %w", err)
	}
	return readLines(z)
}

// WriteFile writes the recording into a file that only its owner can read.
func (r *Recorder) WriteFile(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	if _, err := r.WriteTo(file); err != nil {
		_ = file.Close() // the write failed
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// WriteTo writes the recording, as lines of JSON, compressed with gzip.
func (r *Recorder) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	var head []byte
	var err error
	if r.dropped {
		head, err = json.Marshal(Recorded{r.now().UTC(), Event{Resumed: r.checker.state()}})
	}
	segments, rest := append([][]byte(nil), r.segments...), bytes.Clone(r.raw.Bytes())
	r.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("write the recording: %w", err)
	}
	// Members of gzip follow one another.
	parts := append([][]byte{packed(append(head, '\n'))}, segments...)
	var written int64
	for _, part := range append(parts, packed(rest)) {
		n, err := w.Write(part)
		written += int64(n)
		if err != nil {
			return written, fmt.Errorf("write the recording: %w", err)
		}
	}
	return written, nil
}

// Recorded is an event of a recording. At is zero in a trace that a test wrote.
type Recorded struct {
	At time.Time
	Event
}

// ReadRecording reads a recording that WriteTo or To wrote, compressed or not. The last
// line may be incomplete.
func ReadRecording(r io.Reader) ([]Recorded, error) {
	in := bufio.NewReader(r)
	magic, err := in.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return unpacked(in)
	}
	return readLines(in)
}

// maxLine is ample for the snapshot of a fleet.
const maxLine = 64 << 20

func readLines(r io.Reader) ([]Recorded, error) {
	var out []Recorded
	var broken error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if broken != nil {
			return nil, broken
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e Recorded
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			broken = fmt.Errorf("line %d: %w", n, err)
			continue
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	return out, nil
}

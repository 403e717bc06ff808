package child

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// CutMark ends a line that was cut.
const CutMark = "…"

// Lines calls use with each line of r, without its line end and cut to limit bytes, and raw, if it is
// not nil, with all bytes. It always reads to the end: a full pipe would stop the child.
func Lines(r io.Reader, limit int, raw func([]byte), use func(string)) {
	lines := bufio.NewReaderSize(r, limit)
	within := false // reading the rest of a line that was cut
	for {
		part, err := lines.ReadSlice('\n')
		if raw != nil && len(part) > 0 {
			raw(part)
		}
		full := errors.Is(err, bufio.ErrBufferFull)
		if !within && len(part) > 0 {
			line := strings.ToValidUTF8(strings.TrimRight(string(part), "\r\n"), "\uFFFD")
			if full {
				line += CutMark
			}
			use(line)
		}
		within = full
		if err != nil && !full {
			return
		}
	}
}

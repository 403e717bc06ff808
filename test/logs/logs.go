// Package logs provides a log that a test reads while goroutines write it.
package logs

import (
	"bytes"
	"sync"
)

// Buffer keeps all that is written. The zero value is ready for use.
type Buffer struct {
	mu   sync.Mutex // mu guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text written until now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

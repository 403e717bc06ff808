package protocol

import (
	"testing"
	"time"
)

// The default is the number that docs/protocol.md has. test/upstream compares the
// part of etcd with etcd itself.
func TestDrainTime(t *testing.T) {
	for _, tt := range []struct{ election, want time.Duration }{
		{0, 13 * time.Second},
		{DefaultElectionTimeout, 13 * time.Second},
		{500 * time.Millisecond, 12 * time.Second},
		{2500 * time.Millisecond, 16 * time.Second},
		{5 * time.Second, 21 * time.Second},
	} {
		if got := DrainTime(tt.election); got != tt.want {
			t.Errorf("with an election timeout of %s: got %s, want %s", tt.election, got, tt.want)
		}
	}
}

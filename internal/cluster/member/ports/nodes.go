package ports

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

const (
	// mostNodes bounds the file with the addresses of nodes.
	mostNodes = 256
	// nodeAge is how long an address is known from which no node connected: it may be another machine's by now.
	nodeAge   = 14 * 24 * time.Hour
	nodesMode = 0o600
)

// nodes are the addresses from which clients showed a certificate. A file keeps them for the next start: then all nodes
// connect at once, also those without a member, of which etcd knows no address.
type nodes struct {
	file string

	mu   sync.Mutex // mu guards the fields below
	seen map[netip.Addr]time.Time
	open map[netip.Addr]int // connections; no zeros
}

// readNodes reads the file. What is wrong with it is no reason not to start: its addresses are strangers then.
func readNodes(file string, now time.Time) (*nodes, error) {
	n := &nodes{file: file, seen: map[netip.Addr]time.Time{}, open: map[netip.Addr]int{}}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case err == nil:
		err = json.Unmarshal(text, &n.seen)
	}
	if err != nil || n.seen == nil { // it is nil after "null"
		n.seen = map[netip.Addr]time.Time{}
		return n, err
	}
	n.forget(now)
	return n, nil
}

// forget drops old addresses, and the oldest of too many. It needs mu.
func (n *nodes) forget(now time.Time) {
	for addr := range n.open {
		n.seen[addr] = now
	}
	for addr, seen := range n.seen {
		switch {
		case now.Sub(seen) > nodeAge:
			delete(n.seen, addr)
		case seen.After(now): // the clock was wrong: it would be known until then, in the place of a node
			n.seen[addr] = now
		}
	}
	sorted := n.sorted()
	for _, addr := range sorted[min(len(sorted), mostNodes):] {
		delete(n.seen, addr)
	}
}

func (n *nodes) addresses() []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sorted()
}

// sorted returns the newest address first. It needs mu.
func (n *nodes) sorted() []netip.Addr {
	return slices.SortedFunc(maps.Keys(n.seen), func(a, b netip.Addr) int { return n.seen[b].Compare(n.seen[a]) })
}

// enter notes that a client at an address showed a certificate, and reports whether it is the first one. leave must
// follow.
func (n *nodes) enter(addr netip.Addr, now time.Time) (first bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, before := n.seen[addr]
	n.seen[addr] = now
	n.open[addr]++
	return !before
}

func (n *nodes) leave(addr netip.Addr, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[addr] = now
	if n.open[addr]--; n.open[addr] <= 0 {
		delete(n.open, addr)
	}
}

// seenPart is how exact the times in the file are: it is not written each time that a node connects.
const seenPart = 24 * time.Hour

// write writes the file.
func (n *nodes) write(now time.Time) error {
	n.mu.Lock()
	n.forget(now)
	rounded := map[netip.Addr]time.Time{}
	for addr, seen := range n.seen {
		rounded[addr] = seen.UTC().Truncate(seenPart)
	}
	n.mu.Unlock()
	text, err := json.Marshal(rounded)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(n.file); err == nil && string(before) == string(text) {
		return nil
	}
	return durable.WriteFile(n.file, text, nodesMode)
}

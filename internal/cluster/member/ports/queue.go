package ports

import (
	"context"
	"net/netip"
	"sync"
)

// The connections of strangers that have not ended their handshake. Each takes a file descriptor of the process.
const (
	mostStrangers = 1024
	reserved      = 256 // besides, for addresses without another connection
	reservedFiles = 256 // for etcd
	strangersPart = 8   // of all files, if they are scarce
	reservedPart  = 4   // of those
	fewest        = 64
	// atOnce is how many handshakes of one address are under way. The others wait: if a node is there, it is
	// known after the first handshake, and the others need not pay.
	atOnce = 8
)

// queue holds the connections of strangers until the end of their handshake.
type queue struct {
	most, reserved int

	mu    sync.Mutex // mu guards the fields below
	open  int
	by    map[netip.Addr]*turns // none without a connection
	nodes map[netip.Addr]bool
}

// turns belong to one address.
type turns struct {
	open    int
	turn    chan struct{} // filled while a handshake is under way
	isKnown bool
	known   chan struct{} // closed when a node is at the address
}

// waiting is one connection. Its methods may be called on nil, for one that does not wait.
type waiting struct {
	queue *queue
	addr  netip.Addr
	turns *turns
	holds bool // a turn
}

func newQueue(files uint64) *queue {
	left := int(min(files, strangersPart*mostStrangers+reservedFiles)) - reservedFiles //nolint:gosec // as bounded here
	most := max(fewest, left/strangersPart)
	return &queue{most: most, reserved: min(reserved, most/reservedPart), by: map[netip.Addr]*turns{}}
}

// enter returns nil if there are too many connections. Otherwise leave must follow.
func (q *queue) enter(addr netip.Addr) *waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.by[addr]
	most, each := q.most, q.most/2
	if t == nil {
		most += q.reserved
		t = &turns{turn: make(chan struct{}, atOnce), known: make(chan struct{})}
	}
	if q.open >= most || t.open >= each {
		return nil
	}
	q.by[addr] = t
	t.open++
	q.open++
	if q.nodes[addr] {
		t.end()
	}
	return &waiting{queue: q, addr: addr, turns: t}
}

// end ends the waits at an address. It needs the queue's mu.
func (t *turns) end() {
	if !t.isKnown {
		t.isKnown = true
		close(t.known)
	}
}

// know sets the addresses of nodes, whose connections do not wait.
func (q *queue) know(all []netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nodes = map[netip.Addr]bool{}
	for _, addr := range all {
		q.nodes[addr] = true
		if t := q.by[addr]; t != nil {
			t.end()
		}
	}
}

// await waits for a turn, and reports whether a node is at the address by now. It returns when ctx ends or the port is
// closed, too.
func (w *waiting) await(ctx context.Context, closed <-chan struct{}) (known bool) {
	if w == nil {
		return false
	}
	select {
	case w.turns.turn <- struct{}{}:
		w.holds = true
	case <-w.turns.known:
	case <-ctx.Done():
	case <-closed:
	}
	select {
	case <-w.turns.known: // perhaps when its turn came, too
		return true
	default:
		return false
	}
}

// leave ends the wait, or the handshake.
func (w *waiting) leave() {
	if w == nil {
		return
	}
	if w.holds {
		<-w.turns.turn
	}
	w.queue.mu.Lock()
	defer w.queue.mu.Unlock()
	w.queue.open--
	if w.turns.open--; w.turns.open == 0 {
		delete(w.queue.by, w.addr)
	}
}

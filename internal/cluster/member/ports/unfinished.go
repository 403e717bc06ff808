package ports

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
)

var errCrowded = errors.New("more connections were opened from its address than finish their handshake")

// unfinished holds the connections from the addresses of nodes and of this machine until the end of their handshake:
// each takes a file descriptor. All are let in. If there are too many, the oldest one of the address with most of them is closed:
// a valid client needs milliseconds, so that silent ones at its address, or at others, do not keep it out.
type unfinished struct {
	most int

	mu   sync.Mutex // mu guards the fields below
	open int
	by   map[netip.Addr]*list.List // of *handshake, the oldest first; no empty ones
}

// handshake is one of them. Its methods may be called on nil, for one that is not held here.
type handshake struct {
	all     *unfinished
	addr    netip.Addr
	conn    net.Conn
	element *list.Element
	crowded bool // it was closed
}

func newUnfinished(most int) *unfinished {
	return &unfinished{most: most, by: map[netip.Addr]*list.List{}}
}

// enter adds a connection. leave must follow.
func (u *unfinished) enter(addr netip.Addr, conn net.Conn) *handshake {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open >= u.most {
		u.closeOldest()
	}
	h := &handshake{all: u, addr: addr, conn: conn}
	if u.by[addr] == nil {
		u.by[addr] = list.New()
	}
	h.element = u.by[addr].PushBack(h)
	u.open++
	return h
}

// crowdPart of all handshakes may end by themselves when the port has no place for another connection.
const crowdPart = 4

// makeRoom closes the oldest of many handshakes, when the port has no place for another connection.
func (u *unfinished) makeRoom() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open > u.most/crowdPart {
		u.closeOldest()
	}
}

// closeOldest needs mu.
func (u *unfinished) closeOldest() {
	var longest *list.List
	for _, l := range u.by {
		if longest == nil || l.Len() > longest.Len() {
			longest = l
		}
	}
	if longest == nil {
		return
	}
	oldest, is := longest.Front().Value.(*handshake)
	if !is {
		return
	}
	u.remove(oldest)
	oldest.crowded = true
	_ = oldest.conn.Close() // its handshake notices it
}

// remove needs mu.
func (u *unfinished) remove(h *handshake) {
	l := u.by[h.addr]
	l.Remove(h.element)
	h.element = nil
	u.open--
	if l.Len() == 0 {
		delete(u.by, h.addr)
	}
}

// leave notes the end of a handshake, and reports whether it was closed because there were too many.
func (h *handshake) leave() (crowded bool) {
	if h == nil {
		return false
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.element != nil {
		h.all.remove(h)
	}
	return h.crowded
}

package etcdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// FreeAddr chooses from these ports. They are below the ones that the kernel uses
// for outgoing connections. On one of those, a client that dials a stopped server
// can connect to itself, and a server can find its port in use when it starts again.
const (
	firstPort = 20000
	lastPort  = 32000
	blockSize = 100
)

// ports are those that FreeAddr chooses from in this process.
var ports portBlocks

// portBlocks gives ports out, from blocks that no other process takes as long as this one runs: a
// server that is stopped finds its port free when it starts again. A block is taken by a lock on a file.
type portBlocks struct {
	mu     sync.Mutex // mu guards the fields below
	firsts []int      // the first port of each block that was taken
	locks  []*os.File // never closed: the kernel releases them when the process ends
	given  int        // ports since the first block
}

// take returns a port. It returns none again before all others.
func (p *portBlocks) take() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == len(p.firsts)*blockSize && !p.more() {
		p.given = 0
	}
	port := p.firsts[p.given/blockSize] + p.given%blockSize
	p.given++
	return port
}

// more takes another block, and reports whether there was one. The first block counts in any
// case: without a directory for the locks, another process may use it too. It needs mu.
func (p *portBlocks) more() bool {
	const blocks = (lastPort - firstPort) / blockSize
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-test-ports-%d", os.Getuid()))
	err := os.MkdirAll(dir, 0o700)
	begin := rand.IntN(blocks)
	for i := 0; i < blocks && err == nil; i++ {
		first := firstPort + (begin+i)%blocks*blockSize
		var lock *os.File
		if lock, err = os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			break
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close() // another process has it
			continue
		}
		p.firsts, p.locks = append(p.firsts, first), append(p.locks, lock)
		return true
	}
	if len(p.firsts) > 0 {
		return false
	}
	p.firsts = []int{firstPort + begin*blockSize}
	return true
}

// FreeAddr returns a host:port on loopback that is not in use. It returns no port again
// before all others: the caller may listen there later. Other processes that call it get other
// ports.
func FreeAddr() (string, error) {
	var errs []error
	for range 20 {
		addr := fmt.Sprintf("127.0.0.1:%d", ports.take())
		l, err := net.Listen("tcp", addr)
		if err == nil {
			err = l.Close()
			AwaitFree(addr)
			return addr, err
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("find a free port: %w", errors.Join(errs...))
}

// AwaitFree waits until nothing listens at an address any more. A child that another
// goroutine starts has a copy of each listener until it executes its program, so a port can be
// in use for a moment although its listener is closed. Call this between closing a listener
// and listening there again.
func AwaitFree(addr string) {
	// Not longer, in case another program listens there now.
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return
		case err == nil:
			_ = conn.Close() // it was not used
		}
		runtime.Gosched()
	}
}

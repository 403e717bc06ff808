package allowance

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// attach puts a filter on a listening socket, or takes it away.
func attach(l net.Listener, r rules) error {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a listener of type %T has no socket", l)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = setFilter(int(fd), r) }); err != nil {
		return err
	}
	return set
}

func setFilter(fd int, r rules) error {
	if r.empty() {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("take the packet filter away: %w", err)
		}
		return nil
	}
	var code []unix.SockFilter
	for _, i := range r.program() {
		code = append(code, unix.SockFilter{Code: i.code, Jt: i.jt, Jf: i.jf, K: i.k})
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // bounded by maxHeld and Places
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return fmt.Errorf("put a packet filter on the port: %w", err)
	}
	return nil
}

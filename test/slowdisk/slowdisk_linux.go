package slowdisk

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk delays the writes of the processes that Start started.
type Disk struct {
	takes    atomic.Int64 // nanoseconds
	listener int
	starts   chan start
}

// start asks the thread of a disk to start cmd.
type start struct {
	cmd     *exec.Cmd
	started chan<- error
}

// New returns a disk that is as fast as this machine's. An error means that the kernel does not
// allow it.
func New() (*Disk, error) {
	d := &Disk{starts: make(chan start)}
	ready := make(chan error)
	go d.startAll(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("let the kernel hand over the system calls of a thread (seccomp): %w", err)
	}
	go d.answer()
	return d, nil
}

// Take sets how long each write to the disk takes, from now on.
func (d *Disk) Take(long time.Duration) { d.takes.Store(int64(long)) }

// Start starts a process with this disk. cmd.SysProcAttr may contain a signal for the end of the
// thread that starts it: that thread lives as long as this process.
func (d *Disk) Start(cmd *exec.Cmd) error {
	started := make(chan error)
	d.starts <- start{cmd, started}
	return <-started
}

// startAll runs on the one thread with the filter, which children inherit. It never returns, so
// the thread stays locked, and nothing else runs there.
func (d *Disk) startAll(ready chan<- error) {
	runtime.LockOSThread()
	var err error
	d.listener, err = filterThread()
	ready <- err
	if err != nil {
		return // the thread ends with the goroutine
	}
	for s := range d.starts {
		s.started <- s.cmd.Start()
	}
}

// filterThread lets the kernel hold the fsync and fdatasync of this thread, and returns the file
// that announces them.
func filterThread() (listener int, err error) {
	const number = 0 // the offset of the system call in struct seccomp_data
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// A signal, such as one of Go's scheduler, must not end the wait.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return 0, errno
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// notice is struct seccomp_notif.
type notice struct {
	id    uint64
	pid   uint32
	flags uint32
	data  [64]byte
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

// answer lets each write go on when its time is over. It lives as long as this process, as the
// thread with the filter does.
func (d *Disk) answer() {
	for {
		var n notice
		err := d.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.ENOENT): // a process that was killed meanwhile
			continue
		case err != nil:
			panic(err) // without answers, the processes would hang for ever
		}
		time.AfterFunc(time.Duration(d.takes.Load()), func() {
			r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			// An error means that the process was killed meanwhile.
			_ = d.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
		})
	}
}

func (d *Disk) control(request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.listener), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

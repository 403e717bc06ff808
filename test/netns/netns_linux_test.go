package netns

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNetwork_cut cuts one way between two of three machines: only those packets are
// lost, and they get through again afterwards.
func TestNetwork_cut(t *testing.T) {
	if !Enter(t) {
		return
	}
	n := New(t, "a", "b", "c")
	sockets := map[string]*net.UDPConn{"hub": listen(t, &Machine{Name: "hub", Address: Hub})}
	for _, m := range n.machines {
		sockets[m.Name] = listen(t, m)
	}
	for _, step := range []struct {
		change func() error
		lost   [2]string // the way on which packets are lost
	}{
		{change: func() error { return nil }},
		{change: func() error { return n.Cut("a", "b") }, lost: [2]string{"a", "b"}},
		{change: func() error { return n.Restore("a", "b") }},
		{change: func() error { return n.Cut("c", "b") }, lost: [2]string{"c", "b"}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		for from := range sockets {
			for to := range sockets {
				if from != to {
					sendsTo(t, sockets, from, to, step.lost == [2]string{from, to})
				}
			}
		}
	}
}

// sendsTo requires that a packet arrives, or is lost. The test itself sends another one
// after it, which always arrives.
func sendsTo(t *testing.T, sockets map[string]*net.UDPConn, from, to string, lost bool) {
	t.Helper()
	want := []string{from, "hub"}
	if lost {
		want = want[1:]
	}
	receiver := sockets[to]
	if to == "hub" {
		want = []string{from}
	}
	for _, sender := range []string{from, "hub"} {
		if sender == to {
			continue
		}
		if _, err := sockets[sender].WriteTo([]byte(sender), receiver.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	for _, sender := range want {
		text := make([]byte, 9)
		if err := receiver.SetReadDeadline(time.Now().Add(starts)); err != nil {
			t.Fatal(err)
		}
		size, err := receiver.Read(text)
		if got := string(text[:size]); err != nil || got != sender {
			t.Fatalf("from %s to %s, lost=%t: got a packet of %q, %v, want one of %q", from, to, lost, got, err, sender)
		}
	}
}

// listen opens a socket on a machine.
func listen(t *testing.T, m *Machine) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	failed := make(chan error)
	go func() {
		// The thread is in another network from here on, and ends with this goroutine.
		runtime.LockOSThread()
		err := m.enter()
		if err == nil {
			conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: m.Address})
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (m *Machine) enter() error {
	if m.holder == nil {
		return nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.holder.Process.Pid))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

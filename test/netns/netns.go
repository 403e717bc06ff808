// Package netns gives a test a network of several machines: network namespaces with
// addresses of their own, whose connections can be cut, in one direction too. It needs
// Linux, root, and the programs ip, nsenter and unshare; a test without them is skipped
// loudly. It uses no packet filter, since some kernels are built without: a machine that is
// cut off from another one sends its packets to a hardware address that no machine uses.
//
//	func TestPartition(t *testing.T) {
//		if !netns.Enter(t) {
//			return
//		}
//		network := netns.New(t, "a", "b")
//		... // start programs with network.Machine("a").Wrapper() before them
//		network.Cut("a", "b") // packets from a to b are lost
//	}
package netns

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/again"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Enter runs the test that calls it again, as a process in a new network namespace, and
// passes its result on. It returns false then, and the caller returns. In the new process it
// returns true.
func Enter(t *testing.T) bool {
	t.Helper()
	if again.Inside(t) {
		return true
	}
	if problem := missing(); problem != "" {
		t.Skipf("SKIPPED, NOT TESTED: needs Linux, and network namespaces as root: %s", problem)
	}
	if err := again.Run(t, syscall.SysProcAttr{Setpgid: true}, "unshare", "--net"); err != nil {
		t.Fatal(err)
	}
	return false
}

// missing returns why there can be no network here; empty: there can.
func missing() string {
	for _, program := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return err.Error()
		}
	}
	// It shows whether the user may, and whether the kernel supports these links.
	const trial = "ip link set lo up && ip link add trial0 type bridge && ip link add trial1 type veth peer name trial2"
	if out, err := exec.Command("unshare", "--net", "sh", "-c", trial).CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, bytes.TrimSpace(out))
	}
	return ""
}

const (
	bridge = "br0"
	device = "eth0" // of each machine
	// nowhere is the hardware address that no machine uses.
	nowhere = "02:00:00:00:ff:ff"
	starts  = 10 * time.Second
)

// Network is a network of machines, and of the test itself, which reaches all of them
// and is reached at Hub.
type Network struct {
	machines []*Machine
}

// Machine is a network namespace with one address.
type Machine struct {
	Name    string
	Address net.IP

	hardware string
	holder   *exec.Cmd // a process that is in the namespace; it keeps it
}

// Hub is the address of the test.
var Hub = net.IPv4(10, 89, 0, 254)

// Addresses returns the addresses of the first n machines.
func Addresses(n int) []net.IP {
	var out []net.IP
	for i := range n {
		out = append(out, net.IPv4(10, 89, 0, byte(1+i)))
	}
	return out
}

// New returns a network of machines with these names. It ends with the test, after
// everything that the test starts later.
func New(t testing.TB, names ...string) *Network {
	t.Helper()
	n := &Network{}
	t.Cleanup(n.close)
	if err := n.build(names); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Network) build(names []string) error {
	for i, name := range names {
		m := &Machine{Name: name, Address: Addresses(i + 1)[i], hardware: fmt.Sprintf("02:00:00:00:00:%02x", 1+i)}
		m.holder = exec.Command("unshare", "--net", "sleep", "infinity")
		if err := cluster.StartCommand(m.holder); err != nil {
			return err
		}
		n.machines = append(n.machines, m)
		if err := m.awaitNamespace(); err != nil {
			return err
		}
	}
	hub := &Machine{Name: "hub", Address: Hub, hardware: "02:00:00:00:00:fe"}
	if err := hub.ip(
		"link set lo up", "link add "+bridge+" type bridge", "link set "+bridge+" address "+hub.hardware,
		"addr add "+Hub.String()+"/24 dev "+bridge, "link set "+bridge+" up",
	); err != nil {
		return err
	}
	for _, m := range n.machines {
		port := "port-" + m.Name
		if err := hub.ip(
			fmt.Sprintf("link add %s type veth peer name %s netns %d", port, device, m.holder.Process.Pid),
			"link set "+port+" master "+bridge+" up", hub.neighbour(bridge, m, m.hardware),
		); err != nil {
			return err
		}
		if err := m.ip(
			"link set lo up", "link set "+device+" address "+m.hardware, "addr add "+m.Address.String()+"/24 dev "+device,
			"link set "+device+" up", "route add default via "+Hub.String(), m.neighbour(device, hub, hub.hardware),
		); err != nil {
			return err
		}
	}
	for _, m := range n.machines {
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == m.Name })
		if err := n.Restore(m.Name, others...); err != nil {
			return err
		}
	}
	return n.awaitLinks(hub)
}

// close ends the namespaces. They disappear with the last process in them.
func (n *Network) close() {
	for _, m := range n.machines {
		// It has not ended: nothing else ends it. Its exit is a signal.
		_ = m.holder.Process.Kill()
		_ = m.holder.Wait()
	}
}

// Machine returns the machine with a name.
func (n *Network) Machine(name string) *Machine {
	i := slices.IndexFunc(n.machines, func(m *Machine) bool { return m.Name == name })
	return n.machines[i]
}

// Wrapper is the program, with its arguments, that starts another program on the
// machine. It becomes that program.
func (m *Machine) Wrapper() []string {
	if m.holder == nil {
		return nil
	}
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", m.holder.Process.Pid), "--"}
}

// Cut drops all packets from one machine to others. The sender does not notice: TCP sends
// again, and a packet that it sends after Restore arrives.
func (n *Network) Cut(from string, to ...string) error {
	return n.send(from, to, func(*Machine) string { return nowhere })
}

// Restore lets packets from one machine to others pass again.
func (n *Network) Restore(from string, to ...string) error {
	return n.send(from, to, func(m *Machine) string { return m.hardware })
}

// send makes a machine send its packets for others to these hardware addresses.
func (n *Network) send(from string, to []string, hardware func(*Machine) string) error {
	var lines []string
	for _, name := range to {
		other := n.Machine(name)
		lines = append(lines, n.Machine(from).neighbour(device, other, hardware(other)))
	}
	return n.Machine(from).ip(lines...)
}

// neighbour is the command that makes a machine send packets for another one to a
// hardware address. No machine asks for these addresses, so none changes by itself.
func (m *Machine) neighbour(dev string, to *Machine, hardware string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev %s", to.Address, hardware, dev)
}

// awaitLinks returns when all links are up. That takes a moment, in which the kernel drops
// packets.
func (n *Network) awaitLinks(hub *Machine) error {
	ctx, cancel := context.WithTimeout(context.Background(), starts)
	defer cancel()
	return cluster.Poll(ctx, func(context.Context) error {
		for _, m := range append([]*Machine{hub}, n.machines...) {
			out, err := m.output("ip", "-o", "link", "show", "up")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				if !strings.Contains(line, " state UP ") && !strings.Contains(line, "LOOPBACK") {
					return fmt.Errorf("a link of %s is not up yet: %s", m.Name, strings.TrimSpace(line))
				}
			}
		}
		return nil
	})
}

// output runs a program on the machine and returns its output.
func (m *Machine) output(line ...string) (string, error) {
	args := append(m.Wrapper(), line...)
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s on %s: %w: %s", line[0], m.Name, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// ip runs the program ip on the machine, with one command in each line.
func (m *Machine) ip(lines ...string) error {
	args := append(m.Wrapper(), "ip", "-batch", "-")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip on %s: %w: %s; its input was %q", m.Name, err, bytes.TrimSpace(out), lines)
	}
	return nil
}

// awaitNamespace returns when the holder is in its namespace.
func (m *Machine) awaitNamespace() error {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), starts)
	defer cancel()
	return cluster.Poll(ctx, func(context.Context) error {
		now, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.holder.Process.Pid))
		if err == nil && now == own {
			err = fmt.Errorf("%s has no network namespace yet", m.Name)
		}
		return err
	})
}

package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Machine is a jail that a test uses from outside.
type Machine struct {
	*jail
	Address string // at which the other machines reach it
}

// Machines starts jails that reach each other over a network of their own. Their host names are m1
// and so on. Like Enter, a test calls it before it does anything else.
func Machines(t *testing.T, cfg Config, count int) []*Machine {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		become(cfg) // and never return
	}
	problem := missing()
	if _, err := exec.LookPath("ip"); problem == "" && err != nil {
		problem = err.Error()
	}
	if problem != "" {
		t.Skip("SKIPPED, NOT TESTED: machines with a real systemd need Linux, root, a mounted cgroup2, systemd, dbus-daemon and ip " +
			"(Debian: apt-get install --no-install-recommends systemd dbus iproute2): " + problem)
	}
	var all []*Machine
	for i := range count {
		m := &Machine{jail: newJail(t), Address: fmt.Sprintf("10.77.0.%d", 1+i)}
		m.start(cfg)
		all = append(all, m)
		m.connect(all[0], i)
		m.awaitRunning()
		m.Run(fmt.Sprintf("hostname m%d", 1+i)) // systemd has set another one
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the console of %s:\n%s", m.Address, m.console)
			}
		})
	}
	return all
}

// pid is the first process of the machine.
func (m *Machine) pid() string { return strconv.Itoa(m.cmd.Process.Pid) }

// connect plugs the machine into a bridge, which is on the first one.
func (m *Machine) connect(first *Machine, i int) {
	m.Helper()
	device, name := "eth0", fmt.Sprintf("m%d", 1+i)
	if m == first {
		device = "bridge"
		m.ip(first, "link add bridge type bridge")
	} else {
		m.ip(first, "link add to-"+name+" type veth peer name eth0 netns "+m.pid())
		m.ip(first, "link set to-"+name+" master bridge up")
	}
	for _, args := range []string{
		"link set lo up", "link set " + device + " up",
		"addr add " + m.Address + "/24 dev " + device, "route add default dev " + device,
	} {
		m.ip(m, args)
	}
}

// ip types a command of ip in the network of a machine, by the rights of this one.
func (m *Machine) ip(at *Machine, args string) {
	m.Helper()
	line := append([]string{"--target=" + at.pid(), "--net", "ip"}, strings.Fields(args)...)
	if out, err := exec.CommandContext(m.Context(), "nsenter", line...).CombinedOutput(); err != nil {
		m.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

func (m *Machine) awaitRunning() {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), starts)
	defer cancel()
	err := cluster.Poll(ctx, func(context.Context) error {
		out, err := m.Try("systemctl is-system-running")
		if err == nil && out != "running\n" {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		m.Fatal(err)
	}
}

// Try types a line into a shell of the machine's root user, and returns what it prints.
func (m *Machine) Try(line string) (string, error) {
	cmd := exec.CommandContext(m.Context(), "nsenter", "--target="+m.pid(),
		"--user", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
		"env", "-i", "PATH=/opt:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "bash", "-uc", line)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return string(out), err
}

// Run types a line, which must succeed.
func (m *Machine) Run(line string) string {
	m.Helper()
	out, err := m.Try(line)
	if err != nil {
		m.Fatal(err)
	}
	return out
}

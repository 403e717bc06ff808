package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/lockstep-dev/lockstep/test/attack"
)

const (
	// insideVariable is set in the process that is in a network namespace of its own.
	insideVariable = "LOCKSTEP_BENCH_NETWORK"
	// Each is one digit, so that none begins with another one.
	maxNetworkAddresses = 9
)

// networkAddress returns an address of the network namespace, from 1 on.
func networkAddress(i int) string { return fmt.Sprintf("10.90.0.%d", i) }

// enterNetwork becomes this program in a network namespace of its own, with the addresses
// of networkAddress. In there it prepares them and returns.
func enterNetwork() error {
	if os.Getenv(insideVariable) == "" {
		unshare, err := exec.LookPath("unshare")
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		line := append([]string{unshare, "--net", "--", self}, os.Args[1:]...)
		return syscall.Exec(unshare, line, append(os.Environ(), insideVariable+"=1"))
	}
	lines := []string{"link set lo up", "route add local " + attack.Network + " dev lo"}
	for i := range maxNetworkAddresses {
		lines = append(lines, "addr add "+networkAddress(1+i)+"/32 dev lo")
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("prepare the network namespace: ip: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

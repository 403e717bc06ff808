package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// cleanUp stops everything. It keeps the logs and the data if something failed.
func cleanUp(c *cluster.Cluster, n node, cfg cluster.Config, p *printer, err error) error {
	if c != nil {
		p.stopping(n.lacksMajority())
		err = errors.Join(err, c.Close())
	}
	if err != nil && c != nil {
		return fmt.Errorf("%w\n%s", err, kept(n, cfg))
	}
	if others := n.others(); len(others) > 0 && c != nil {
		p.othersRun(n, others, cfg.Dir)
		return err
	}
	if err = errors.Join(err, os.RemoveAll(cfg.Dir)); err == nil && c != nil {
		p.stopped(n, cfg.Dir)
	}
	return err
}

// kept says what stays after a failure, and how the node starts again.
func kept(n node, cfg cluster.Config) string {
	lines := []string{"logs are in " + cfg.LogDir}
	if _, err := os.Stat(n.own.settings); err == nil {
		lines = append(lines, "to start the node again, with its data: . "+n.own.settings+" && sidecar run")
	}
	return strings.Join(append(lines, "to remove everything: rm -r "+cfg.Dir), "\n")
}

// others returns the nodes that joined and still run.
func (n node) others() []string {
	var out []string
	for _, j := range n.more {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(j.url, "http://"), time.Second)
		if err != nil {
			continue // nothing answers there
		}
		out = append(out, j.id)
		_ = conn.Close()
	}
	return out
}

// lacksMajority reports whether so many of the nodes that joined have stopped that etcd has no majority.
func (n node) lacksMajority() bool {
	voters := 1
	for _, j := range n.more {
		if _, err := os.Stat(j.dir); j.dir != "" && err == nil {
			voters++
		}
	}
	return 1+len(n.others()) < protocol.Majority(voters)
}

// endOf waits for the end of a process, and describes it.
func endOf(name string, process *cluster.Process) error {
	how, killed := process.Ended()
	if killed { // not by itself, so the last lines of its log are no reason
		return fmt.Errorf("%s %s; its log: %s", name, how, process.LogFile())
	}
	return fmt.Errorf("%s %s; %s", name, how, process.Ending())
}

func (n node) nameOf(process *cluster.Process) string {
	if process == n.sidecar.Process {
		return "the sidecar"
	}
	return "kube-apiserver"
}

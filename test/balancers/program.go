package balancers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	startTimeout = 20 * time.Second
	stopTimeout  = 10 * time.Second
)

// Program is a balancer that runs as a child process.
type Program struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it ended
}

// Start starts a program, whose output goes to the file log.
func Start(log string, line ...string) (*Program, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child keeps its own
	p := &Program{cmd: exec.Command(line[0], line[1:]...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := cluster.StartCommand(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", line[0], err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // it reports the signal that ended it
	}()
	return p, nil
}

// Stop ends the program, and returns when it ended.
func (p *Program) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return nil //nolint:nilerr // it has ended
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}
	err := p.cmd.Process.Kill()
	<-p.done
	return err
}

// Log returns the output of the program.
func (p *Program) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// StartHAProxy starts HAProxy with a configuration in a directory, in which its log is
// too. It returns when HAProxy accepts connections at address.
func StartHAProxy(dir, config, address string) (*Program, error) {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(binary, "-c", "-f", file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("check the configuration of HAProxy: %w: %s", err, out)
	}
	p, err := Start(filepath.Join(dir, "haproxy.log"), binary, "-db", "-f", file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err = cluster.Poll(ctx, func(context.Context) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start HAProxy: %w: %s", err, p.Log()), p.Stop())
	}
	return p, nil
}

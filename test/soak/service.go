package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/soak/judge"
)

// This file is the service of the nodes whose roles are moved: a program that writes into
// a log when it starts, is ready, and is asked to stop, by the clock of the machine, which
// the recorder uses too.

const (
	// serviceWord is the first argument of the program. The log and the address follow.
	serviceWord = "service"
	servicePort = "7000"
	// How long it takes to become ready, and to stop.
	serviceStarts = 100 * time.Millisecond
	serviceStops  = 50 * time.Millisecond
)

// monotonic is the clock of the machine, which no one sets.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// serviceLine is a line of the log.
type serviceLine struct {
	What         judge.Moment
	At           time.Duration // by monotonic
	PID, Sidecar int
	Generation   string // of its file
}

func serve(log, address string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if err := writeLine(log, judge.Started); err != nil {
		return err
	}
	select {
	case <-term:
		return writeLine(log, judge.Stopping)
	case <-time.After(serviceStarts):
	}
	if err := writeLine(log, judge.Ready); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	<-term
	if err := writeLine(log, judge.Stopping); err != nil {
		return err
	}
	<-time.After(serviceStops)
	return l.Close()
}

func writeLine(log string, what judge.Moment) error {
	text, err := json.Marshal(serviceLine{
		What: what, At: monotonic(), PID: os.Getpid(), Sidecar: os.Getppid(), Generation: os.Getenv("GENERATION"),
	})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", text)
	return errors.Join(err, f.Close())
}

func readLines(log string) ([]serviceLine, error) {
	f, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []serviceLine
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var l serviceLine
		if json.Unmarshal(lines.Bytes(), &l) == nil { // a line may be cut by SIGKILL
			out = append(out, l)
		}
	}
	return out, lines.Err()
}

func (n *node) serviceLog() string { return n.dataDir + ".service" }

// changeServices changes the service of all nodes at one moment. What it changes to is as good as before.
func (w *world) changeServices() outcome {
	generation := w.generation.Add(1)
	for _, n := range w.nodes {
		if err := n.writeServices(generation); err != nil {
			w.logf("%v", err)
			return skipped
		}
	}
	return done
}

// writeServices writes the services directory of a node.
func (n *node) writeServices(generation int64) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	address := net.JoinHostPort(n.machine.Address.String(), servicePort)
	text := fmt.Sprintf(`apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: api}
role: kubernetes_controller
process: {command: [%q, %s, %q, %q], env: [{name: GENERATION, value: "%d"}]}
readiness:
  tcpSocket: {address: %q}
  periodSeconds: 1
stopTimeout: 10s
`, program, serviceWord, n.serviceLog(), address, generation, address)
	if err := os.MkdirAll(n.services(), 0o700); err != nil {
		return err
	}
	whole := filepath.Join(n.services(), ".api.yaml") // a sidecar must not read half of it
	if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(whole, filepath.Join(n.services(), "api.yaml"))
}

func (n *node) services() string { return n.dataDir + ".services" }

// serving returns the newest instance of a node's service, if it runs and was ready; 0:
// there is none.
func (n *node) serving() (int, error) {
	lines, err := readLines(n.serviceLog())
	if err != nil || len(lines) == 0 {
		return 0, err
	}
	last := lines[len(lines)-1]
	if last.What != judge.Ready || cluster.HasEnded(last.PID) == nil {
		return 0, nil
	}
	return last.PID, nil
}

// changed returns nil if each node runs the service of its newest file.
func (w *world) changed() error {
	for _, n := range w.nodes {
		lines, err := readLines(n.serviceLog())
		if err != nil {
			return err
		}
		if want := strconv.FormatInt(w.generation.Load(), 10); len(lines) == 0 || lines[len(lines)-1].Generation != want {
			return fmt.Errorf("%s does not run the service of its newest file, %s", n.name(), want)
		}
	}
	return nil
}

// killService kills a node's service, and not its sidecar.
func (w *world) killService(n *node) outcome {
	pid, err := n.serving()
	if err == nil && pid != 0 {
		err = kill(pid, syscall.SIGKILL)
	}
	if err != nil || pid == 0 {
		return skipped
	}
	return done
}

// serviceMoments returns the log lines of all services, by the recorder's clock.
func (w *world) serviceMoments() ([]judge.ServiceMoment, error) {
	if !w.shape.moves {
		return nil, nil
	}
	since := monotonic() - w.rec.now()
	var out []judge.ServiceMoment
	for _, n := range w.nodes {
		lines, err := readLines(n.serviceLog())
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			out = append(out, judge.ServiceMoment{
				Node: n.name(), What: l.What, At: l.At - since, PID: l.PID, Sidecar: l.Sidecar, Generation: l.Generation,
			})
		}
	}
	return out, nil
}

// losePower ends all sidecars and all members at one moment, and starts them again.
func (w *world) losePower(ctx context.Context, f fault) outcome {
	caused := w.powerFailure(ctx, f)
	w.awaitQuorum(ctx)
	return caused
}

func (w *world) powerFailure(ctx context.Context, f fault) outcome {
	for _, n := range w.nodes {
		n.busy.Lock()
		defer n.busy.Unlock()
	}
	if ctx.Err() != nil {
		return skipped
	}
	var off []*node
	for _, n := range w.nodes {
		if n.sidecar == nil {
			continue
		}
		off = append(off, n)
		if err := n.sidecar.Signal(syscall.SIGSTOP); err != nil { // none notices the end of another one
			w.logf("%v", err)
		}
	}
	for _, n := range off {
		if err := w.stop(n, losingPower); err != nil {
			w.logf("kill %s: %v", n.name(), err)
		}
	}
	up := w.down(off...)
	pause(ctx, f.lasts/4)
	up()
	for _, n := range off {
		if err := w.start(n, n.release); err != nil {
			w.logf("restart %s: %v", n.name(), err)
		}
	}
	return done
}

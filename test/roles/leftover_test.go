package roles_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// A sidecar is killed, its service goes on, and the next release cannot stop that: it does not start
// its own service, its gate stays closed and its record is not written until the old service has
// ended.
func TestLeftover(t *testing.T) {
	t.Parallel()
	o := newOrder(t, 100, (*order).withScript)
	o.startSidecar(true)
	o.awaitOpen()
	left := o.killed()
	o.startSidecar(true)
	o.awaitRefusal()
	if err := o.sidecar.Readyz(t.Context()); err == nil {
		t.Error("the gate is open over the service of the release before")
	}
	if now := o.record(); now != o.life.record {
		t.Errorf("the record was written, at revision %d, while the service of the release before runs", now)
	}
	if all := o.log(started); !lives(left) || len(all) != 1 {
		t.Fatalf("the service of the release before lives: %t; instances: %+v", lives(left), all)
	}
	o.kill(left)
	o.awaitOpen()
	o.stop()
}

// A sidecar is killed, and its pod goes on. The next release has a process in its place, and no service
// that names the directory of the pod: the pod ends before the process starts.
func TestLeftover_pod(t *testing.T) {
	t.Parallel()
	o := newOrder(t, 101, (*order).withPod)
	o.startSidecar(true)
	o.awaitOpen()
	left := o.killed()
	o.podBecomesProcess()
	o.startSidecar(true)
	o.awaitOpen()
	if all := o.log(started); lives(left) || len(all) != 2 {
		t.Errorf("the pod of the release before lives: %t; instances: %+v", lives(left), all)
	}
	o.stop()
}

// killed kills the sidecar, and returns the process of its service, which lives.
func (o *order) killed() (pid int) {
	o.Helper()
	left := o.log(started)[0].PID
	o.kill(o.sidecar.PID())
	<-o.sidecar.Done()
	if !lives(left) {
		o.Fatal("the service ended with its sidecar")
	}
	return left
}

// withScript runs the service by a script, which outlives no sidecar, but what it started does.
func (o *order) withScript() {
	o.Helper()
	o.withServer()
	script := filepath.Join(o.dir, "run.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap 'kill $!' TERM\n\"$@\" &\nwait\nwait\n"), 0o700); err != nil { //nolint:gosec // it is executed
		o.Fatal(err)
	}
	o.install = func(s settings) {
		command, err := json.Marshal(append([]string{script}, o.commandOf(s)...))
		if err != nil {
			o.Fatal(err)
		}
		o.writeService(s, fmt.Sprintf("process: {command: %s}", command))
	}
}

// podBecomesProcess makes the service a process from the next release on. No service names the
// directory of the pod any more.
func (o *order) podBecomesProcess() {
	o.Helper()
	if err := os.RemoveAll(filepath.Join(o.dir, "services", "manifests")); err != nil {
		o.Fatal(err)
	}
	o.install = func(s settings) {
		s.Socket = false
		o.writeService(s, fmt.Sprintf("process: {command: %s}", o.command(s)))
	}
}

// awaitRefusal waits until the sidecar says that another program answers for its service.
func (o *order) awaitRefusal() {
	o.Helper()
	want := "another program answers at " + o.set.Listen
	cluster.Await(o, "the sidecar to see the other program", func(ctx context.Context) error {
		_, body, err := o.sidecar.Get(ctx, "/status")
		if err == nil && !strings.Contains(body, want) {
			err = fmt.Errorf("no %q in %s", want, body)
		}
		return err
	})
}

package soak

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// settling is how long an administrator waits for a node before the next one.
	// Some nodes do not become ready: in some rollbacks, and during a fault.
	settling = 8 * time.Second
	// deciding is how long an administrator waits for DONE before the next upgrade,
	// although one should wait longer.
	deciding       = 15 * time.Second
	commandTimeout = 15 * time.Second
)

// do carries out a step. An error does not end the run: administrators try again
// later, or do something else.
func (w *world) do(ctx context.Context, s step) {
	w.logf("%s", s)
	w.addCount("step: " + s.kind())
	switch s.action {
	case move:
		w.move(ctx, s)
	case roles:
		w.roles(ctx, w.nodes[s.order[0]], s.pause)
	case rejoin:
		w.rejoin(ctx, w.nodes[s.order[0]], s.pause)
	case place:
		w.place(ctx, s)
	}
}

// move moves the nodes to another release, one after another. If the move is
// abandoned, it moves the first ones back.
func (w *world) move(ctx context.Context, s step) {
	if s.asked {
		w.askBack(ctx, s)
	} else if !s.forgets {
		w.endRollback(ctx, 1)
	}
	for i, at := range s.order[:s.upto] {
		if ctx.Err() != nil {
			return
		}
		w.switchTo(ctx, w.nodes[at], s.to, s.crash[i], s.waits[i])
	}
	if s.upto == len(s.order) {
		w.settle(ctx, s)
		return
	}
	if s.asked && !s.forgets {
		w.endRollback(ctx, 1)
	}
	for i, at := range s.order[:s.upto] {
		if ctx.Err() != nil {
			return
		}
		w.switchTo(ctx, w.nodes[at], s.from, s.crash[len(s.order)-1-i], s.waits[i])
	}
}

// askBack types that people want an older release. It may be refused.
func (w *world) askBack(ctx context.Context, s step) {
	args := []string{"rollback", "begin", "--to=" + releases[s.to].name}
	if s.short {
		args = append(args, "--for=1m")
	}
	if s.force {
		args = append(args, "--force")
	}
	err := w.command(ctx, args...)
	if err != nil && w.shape.moves && !s.force { // they have read why, and insist
		w.logf("%v", err)
		err = w.command(ctx, append(args, "--force")...)
	}
	if err != nil {
		w.logf("%v", err)
		return
	}
	w.addCount("rollback begun")
}

// endRollback ends a rollback that is under way. It tries a few times.
func (w *world) endRollback(ctx context.Context, tries int) {
	for range tries {
		err := w.command(ctx, "rollback", "end")
		if err == nil {
			return
		}
		w.logf("%v", err)
		pause(ctx, time.Second)
	}
}

// settle waits until the status shows that a move is DONE.
func (w *world) settle(ctx context.Context, s step) {
	if !s.settle {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deciding)
	defer cancel()
	began, want := time.Now(), mustRelease(releases[s.to].name)
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		now, err := w.status(ctx)
		if err == nil && (now.Kind != protocol.StatusPresent || now.Status.State != protocol.Done || now.Status.Version.Release != want) {
			err = fmt.Errorf("the status is %s", now)
		}
		return err
	})
	if err != nil {
		w.logf("%s is not done yet: %v", s, err)
		return
	}
	w.addCount("done: " + s.kind())
	w.logf("%s is done %s later", s, time.Since(began).Round(time.Millisecond))
}

// switchTo replaces a node's sidecar. The old one ends before the new one
// starts (docs/protocol-nodes.md#registration).
func (w *world) switchTo(ctx context.Context, n *node, to int, crash, wait bool) {
	n.busy.Lock()
	how := n.leave
	if crash {
		how = crashing
	}
	err := w.stop(n, how)
	if err == nil {
		w.renew(ctx, n)
		err = w.start(n, to)
	}
	n.busy.Unlock()
	if err != nil {
		w.logf("switch %s to %s: %v", n.name(), releases[to].name, err)
		return
	}
	if wait {
		if err := w.ready(ctx, n, settling); err != nil {
			w.logf("%s with %s is not ready yet: %v", n.name(), releases[to].name, err)
		}
	}
}

// roles takes the controller role from a node and gives it back, whether the node
// noticed or not: it may be cut off, and its gate open.
func (w *world) roles(ctx context.Context, n *node, d time.Duration) {
	n.busy.Lock()
	defer n.busy.Unlock()
	if err := w.command(ctx, "node", "set-roles", n.name(), n.roles("kubernetes_worker"), "--force"); err != nil {
		w.logf("%v", err) // the node may have lost the role, or not
	}
	pause(ctx, d)
	w.giveRole(ctx, n)
}

// giveRole gives a node its controller role back. It also works after ctx
// ended, so that no node stays without the role.
func (w *world) giveRole(ctx context.Context, n *node) {
	for range 5 {
		err := w.command(context.WithoutCancel(ctx), "node", "set-roles", n.name(), n.roles("kubernetes_controller"))
		if err == nil {
			return
		}
		w.logf("%v", err)
		pause(context.WithoutCancel(ctx), time.Second)
	}
}

// roles returns one role and, if the node runs a member of etcd, the role of members.
func (n *node) roles(one string) string {
	if n.dataDir != "" {
		return one + ",consensus_member"
	}
	return one
}

// rejoin stops a node, removes its record, and starts it again.
func (w *world) rejoin(ctx context.Context, n *node, d time.Duration) {
	n.busy.Lock()
	defer n.busy.Unlock()
	index := n.release
	if err := w.stop(n, n.leave); err != nil {
		w.logf("stop %s: %v", n.name(), err)
	}
	w.rec.removes(n.name())
	if err := w.command(ctx, "node", "remove", n.name(), "--confirm-stopped"); err != nil {
		w.logf("%v", err)
	}
	pause(ctx, d)
	w.renew(ctx, n)
	if err := w.start(n, index); err != nil {
		w.logf("restart %s: %v", n.name(), err)
	}
}

// command runs a command of the sidecar, with direct connections to etcd.
func (w *world) command(ctx context.Context, args ...string) error {
	args = append(args, "--etcd-servers="+strings.Join(w.endpoints(), ","), "--etcd-prefix="+prefix)
	_, err := w.run(ctx, append(args, w.credentials()...)...)
	return err
}

// run runs a command of the sidecar, and returns its output.
func (w *world) run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(w.assets, "sidecar"), args...).Output()
	if err != nil {
		text := ""
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			text = strings.TrimSpace(string(exit.Stderr))
		}
		return nil, fmt.Errorf("sidecar %s: %w: %s", strings.Join(args[:3], " "), err, text)
	}
	return out, nil
}

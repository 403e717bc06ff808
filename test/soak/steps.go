package soak

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

const (
	// settling is how long people wait for a node before they go on with the
	// next. Not all nodes become ready: not in every rollback, and not while a
	// fault lasts.
	settling = 8 * time.Second
	// deciding is how long they wait for an upgrade to be done before they start
	// the next, though they should not.
	deciding       = 15 * time.Second
	commandTimeout = 15 * time.Second
	// noticing is how long a node may take to see that its role was removed. No
	// fault lasts that long.
	noticing = 60 * time.Second
)

// do carries a step out. Nothing that goes wrong ends the run: people try again
// later, or do something else.
func (w *world) do(ctx context.Context, s step) {
	w.tell("%s", s)
	w.counted("step: " + s.kind())
	switch s.deed {
	case move:
		w.move(ctx, s)
	case roles:
		w.roles(ctx, w.nodes[s.order[0]], s.pause)
	case rejoin:
		w.rejoin(ctx, w.nodes[s.order[0]], s.pause)
	}
}

// move takes the nodes to another release, one after another, and the first of
// them back where it is given up.
func (w *world) move(ctx context.Context, s step) {
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
	for i, at := range s.order[:s.upto] {
		if ctx.Err() != nil {
			return
		}
		w.switchTo(ctx, w.nodes[at], s.from, s.crash[len(s.order)-1-i], s.waits[i])
	}
}

// settle waits until the store says that a move is done.
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
		w.tell("%s is not done yet: %v", s, err)
		return
	}
	w.counted("done: " + s.kind())
	w.tell("%s is done %s later", s, time.Since(began).Round(time.Millisecond))
}

// switchTo replaces a node's sidecar. The old one has ended before the new one
// starts (docs/protocol.md#registration).
func (w *world) switchTo(ctx context.Context, n *node, index int, crash, wait bool) {
	n.busy.Lock()
	how := gracefully
	if crash {
		how = crashing
	}
	err := w.stop(n, how)
	if err == nil {
		err = w.start(n, index)
	}
	n.busy.Unlock()
	if err != nil {
		w.tell("switch %s to %s: %v", n.id, releases[index].name, err)
		return
	}
	if wait {
		if err := w.ready(ctx, n, settling); err != nil {
			w.tell("%s with %s is not ready yet: %v", n.id, releases[index].name, err)
		}
	}
}

// roles removes the controller role from a node, and gives it back. Meanwhile its
// connections work. The role is given back only when the node is seen to be out: an
// operator who removes the role must see that the node noticed, because no leader
// waits for it any more.
func (w *world) roles(ctx context.Context, n *node, d time.Duration) {
	n.network.Lock()
	defer n.network.Unlock()
	n.busy.Lock()
	defer n.busy.Unlock()
	patience := noticing
	if err := w.command(ctx, "node", "set-roles", n.id, "kubernetes_worker"); err != nil {
		w.tell("%v", err) // the role may be removed or not
		patience /= 6
	}
	pause(ctx, d)
	if n.sidecar != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err := cluster.Poll(limited, func(ctx context.Context) error {
			if n.sidecar.Readyz(ctx) == nil {
				return fmt.Errorf("%s is ready without the role", n.id)
			}
			return nil
		})
		if err != nil {
			w.tell("%v", err)
		}
	}
	w.giveRole(ctx, n)
}

// giveRole also works after ctx has ended, so that no node stays without its role.
func (w *world) giveRole(ctx context.Context, n *node) {
	for range 5 {
		err := w.command(context.WithoutCancel(ctx), "node", "set-roles", n.id, "kubernetes_controller")
		if err == nil {
			return
		}
		w.tell("%v", err)
		pause(context.WithoutCancel(ctx), time.Second)
	}
}

// rejoin stops a node, removes its record, and starts it again.
func (w *world) rejoin(ctx context.Context, n *node, d time.Duration) {
	n.busy.Lock()
	defer n.busy.Unlock()
	index := n.release
	if err := w.stop(n, gracefully); err != nil {
		w.tell("stop %s: %v", n.id, err)
	}
	if err := w.command(ctx, "node", "remove", n.id, "--confirm-stopped"); err != nil {
		w.tell("%v", err)
	}
	pause(ctx, d)
	if err := w.start(n, index); err != nil {
		w.tell("start %s again: %v", n.id, err)
	}
}

// command runs the sidecar's own command, past the proxies.
func (w *world) command(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	args = append(args, "--etcd-servers="+strings.Join(w.cluster.Endpoints(), ","), "--etcd-prefix="+prefix)
	out, err := exec.CommandContext(ctx, filepath.Join(w.assets, "sidecar"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("sidecar %s: %w: %s", strings.Join(args[:3], " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// observeInterval is how often the walk observes the control plane. A kubelet probes
// every ten seconds.
const observeInterval = 200 * time.Millisecond

// kubeletFailureThreshold is the default of a readiness probe.
const kubeletFailureThreshold = 3

// View is the control plane as a user sees it. It can be compared.
type View struct {
	Nodes  [NodeCount]NodeView
	Leader string // the node whose sidecar reports that it leads; empty: none does
	Status string // as in Want.Status; empty: unknown
}

// String is for logs: "a:1.1.0+ b:- c:1.0.0+blocks leader=a status=...", where +
// means ready.
func (v View) String() string {
	var out strings.Builder
	for _, n := range v.Nodes {
		fmt.Fprintf(&out, "%s:%s", n.ID, cmp.Or(n.Release, "-"))
		if n.Ready {
			out.WriteString("+")
		}
		if n.Blocks {
			out.WriteString("blocks")
		}
		out.WriteString(" ")
	}
	fmt.Fprintf(&out, "leader=%s status=%s", cmp.Or(v.Leader, "-"), cmp.Or(v.Status, "-"))
	return out.String()
}

// NodeView is one node.
type NodeView struct {
	ID      string
	Release string // empty: it does not run
	Ready   bool   // by the kubelet's prober
	Reason  string // the gate's, if it is not ready
	Blocks  bool   // it blocks the leader, as the leader reports
}

// observe keeps the view current until ctx ends.
func (w *Walk) observe(ctx context.Context) {
	ticker := time.NewTicker(observeInterval)
	defer ticker.Stop()
	for {
		w.show(w.gather(ctx))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// show reports a view that differs from the previous one.
func (w *Walk) show(v View) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v == w.view {
		return
	}
	w.view = v
	w.emit(Event{})
}

func (w *Walk) gather(ctx context.Context) View {
	var v View
	statuses := map[string]cluster.Status{}
	for i, n := range w.nodes {
		var status cluster.Status
		v.Nodes[i], status = w.gatherNode(ctx, n)
		if status.Election.State == "leading" {
			v.Leader = n.id
		}
		if status.Node.ID != "" {
			statuses[n.id] = status
		}
	}
	// Status and blockers as the leader reports them; without a leader, as any node.
	for _, id := range append([]string{v.Leader}, nodeA, nodeB, nodeC) {
		status, answered := statuses[id]
		if !answered {
			continue
		}
		v.Status = status.Describe()
		for i := range v.Nodes {
			v.Nodes[i].Blocks = slices.Contains(status.Blockers(), v.Nodes[i].ID)
		}
		break
	}
	return v
}

// gatherNode probes a node as its kubelet would. The status is empty if the sidecar
// does not answer.
func (w *Walk) gatherNode(ctx context.Context, n *node) (NodeView, cluster.Status) {
	n.mu.Lock()
	release, sidecar := n.release, n.sidecar
	n.mu.Unlock()
	if release == "" {
		return NodeView{ID: n.id}, cluster.Status{}
	}
	probe, err := w.prober.Probe(sidecar.URL() + "/readyz")
	if err != nil {
		probe.Error = err.Error()
	}
	status, statusErr := sidecar.Status(ctx)

	n.mu.Lock()
	defer n.mu.Unlock()
	if n.release == "" || ctx.Err() != nil { // the node was stopped meanwhile
		return NodeView{ID: n.id}, cluster.Status{}
	}
	v := NodeView{ID: n.id, Release: release, Ready: w.checkReady(n, probe)}
	if probe.OK() && statusErr == nil {
		if err := admits(status, w.bundles.minimum[release]); err != nil {
			w.misfit(fmt.Errorf("%s after %.1f s: %w", n.id, time.Since(w.begin).Seconds(), err))
		}
	}
	if !v.Ready && statusErr == nil {
		v.Reason = status.Ready.Reason
	}
	return v, status
}

// checkReady reports whether a node is ready. It records a loss if a node that was
// ready is not ready any more, although the walk did not stop it. A busy machine can
// cause a timeout, so only the third one in a row counts, as for a kubelet. It needs
// n.mu.
func (w *Walk) checkReady(n *node, probe cluster.Probe) bool {
	n.silent++
	if !strings.Contains(probe.Output, "Client.Timeout") {
		n.silent = 0
	}
	if n.ready && n.silent > 0 && n.silent < kubeletFailureThreshold {
		return true
	}
	if n.ready && !probe.OK() {
		w.lose(fmt.Errorf("%s after %.1f s: %s%s", n.id, time.Since(w.begin).Seconds(), probe.Output, probe.Error))
	}
	n.ready = probe.OK()
	return n.ready
}

func (w *Walk) lose(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, err)
}

// admits checks the admission of a ready node (docs/protocol.md#admission) without the
// sidecar's code. needs is the node's minReconcilerRelease.
func admits(s cluster.Status, needs string) error {
	r := s.Reconciler
	switch {
	case r.Kind == "unknown":
		return nil // the gate has read the status itself, and the watch has not reported it yet
	case r.State == "":
		return errors.New("ready without a status")
	}
	// As strings: the walk uses no number above nine.
	if s.Node.Release < r.MinimumCompatibleRelease || r.Version < needs {
		return fmt.Errorf("%s, which needs %s, is ready under %s", s.Node.Release, needs, s.Describe())
	}
	return nil
}

func (w *Walk) misfit(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.misfits = append(w.misfits, err)
}

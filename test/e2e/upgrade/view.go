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

// lookInterval is how often the control plane is looked at. A kubelet looks
// every ten seconds.
const lookInterval = 50 * time.Millisecond

// kubeletFailureThreshold is the default of a readiness probe.
const kubeletFailureThreshold = 3

// View is what is to be seen of the control plane from outside. It can be
// compared.
type View struct {
	Nodes  [NodeCount]NodeView
	Leader string // the node whose sidecar says that it leads; empty: none does
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
	Ready   bool   // as the kubelet's prober finds
	Reason  string // the gate's, where it is not ready
	Blocks  bool   // holds the leader back, as the leader says
}

// look keeps the view up to date until ctx ends.
func (w *Walk) look(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
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

// show reports a view that differs from the one before. A moment between two
// leaders is not shown: it is told by the next one.
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
	// The leader's word on status and blockers; without a leader, anybody's.
	for _, id := range append([]string{v.Leader}, nodeA, nodeB, nodeC) {
		status, found := statuses[id]
		if !found {
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

// gatherNode probes a node as its kubelet would. A sidecar that does not answer
// gives an empty status.
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
	if n.release == "" || ctx.Err() != nil { // what was seen is no longer of interest
		return NodeView{ID: n.id}, cluster.Status{}
	}
	v := NodeView{ID: n.id, Release: release, Ready: w.judge(n, probe)}
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

// judge says whether a node is ready, and notes where one that served does not
// any more, though nobody stopped it. It needs n.mu. Silence, which a busy
// machine can cause, counts as it does for a kubelet: at the third time.
func (w *Walk) judge(n *node, probe cluster.Probe) bool {
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

// admits holds what a node that is ready tells of itself to DESIGN 4.1, by
// other means than the sidecar's. needs is the node's minReconcilerRelease.
func admits(s cluster.Status, needs string) error {
	r := s.Reconciler
	if r.State == "" {
		return errors.New("ready without a status")
	}
	// As strings: the walk has no number above nine.
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

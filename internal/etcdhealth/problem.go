package etcdhealth

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster"
)

// Problem is a problem of etcd. The zero value: none is known.
type Problem struct {
	Text string
	Full bool // the database is full, so etcd refuses writes
}

const (
	// The pauses between two diagnoses during a problem. Each diagnosis opens its own connection,
	// which costs an etcd that many sidecars overload.
	minDiagnosisPause = 5 * time.Second
	maxDiagnosisPause = time.Minute
	// etcdFullInterval is the pause between two questions whether etcd is full: while nothing changes,
	// no sidecar writes, so no refused write would show it.
	etcdFullInterval = time.Minute
)

// RunProblem publishes why etcd does not answer, or answers with errors, until ctx ends. The client
// library's error rarely reports more than a timeout.
func (w *Watch) RunProblem(ctx context.Context) error {
	var counted int64
	var asked time.Time
	pauses := diagnosisPauses()
	for {
		contact, contactChanged := w.cfg.Client.Contact().Load()
		_, clusterChanged := w.cfg.Cluster.Status().Load()
		members, membersChanged := w.cfg.Cluster.Members().Load()
		suspected := !contact.Connected && contact.Problem != "" || contact.Refused > counted ||
			slices.ContainsFunc(members, func(m cluster.Observed) bool { return m.Full }) || // their sidecars ask them every few seconds
			w.problem.Get() != Problem{}
		counted = contact.Refused
		switch now := time.Now(); {
		case suspected:
			asked = now
			w.ask(ctx)
		case now.Sub(asked) >= etcdFullInterval:
			asked = now
			w.askIfFull(ctx)
		}
		switch now := w.problem.Get(); {
		case now == Problem{}:
			pauses.Reset()
			event.WaitFor(ctx, etcdFullInterval, contactChanged, clusterChanged, membersChanged)
		case contact.Connected, // etcd may be healthy again without a change
			awaitEtcd(ctx, w.cfg.Client.Contact(), pauses.Next(), clusterChanged, membersChanged):
			pauses.Reset()
			event.WaitFor(ctx, backoff.Spread(minDiagnosisPause), clusterChanged)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func diagnosisPauses() backoff.Backoff {
	return backoff.Backoff{First: minDiagnosisPause, Max: maxDiagnosisPause, Jitter: backoff.Apart}
}

// awaitEtcd waits until etcd answers again, until one of the other changes, or for the pause at most. It
// reports whether etcd answers.
func awaitEtcd(ctx context.Context, of *event.Value[etcd.Contact], pause time.Duration, other ...<-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	for {
		contact, contactChanged := of.Load()
		if contact.Connected {
			return true
		}
		if !event.Wait(ctx, append(other, contactChanged)...) || slices.ContainsFunc(other, closed) {
			return false
		}
	}
}

func closed(change <-chan struct{}) bool {
	select {
	case <-change:
		return true
	default:
		return false
	}
}

// askIfFull asks the server in use, and all servers if its database is full.
func (w *Watch) askIfFull(ctx context.Context) {
	if w.cfg.Client.Contact().Get().Connected && w.cfg.Client.Full(ctx) {
		w.ask(ctx)
	}
}

// ask asks the servers, and sets the problem by their answers.
func (w *Watch) ask(ctx context.Context) {
	now := Problem{Text: w.diagnose(ctx), Full: w.cfg.Client.Contact().Get().Connected && w.cfg.Client.Full(ctx)}
	if now == w.problem.Get() || ctx.Err() != nil {
		return
	}
	w.problem.Set(now)
	if now.Text != "" && !w.joinsNow() {
		w.cfg.Log.Warn("etcd cannot be used", "problem", now.Text)
	}
}

// joinsNow reports whether this node uses the sidecars' etcd, and is still joining its cluster. The
// cluster manager knows better why it waits, and logs it.
func (w *Watch) joinsNow() bool {
	return w.cfg.Embedded && w.cfg.Cluster.Status().Get().State != cluster.Running
}

// diagnose asks the servers, unless the cluster manager knows more.
func (w *Watch) diagnose(ctx context.Context) string {
	if w.joinsNow() {
		return cmp.Or(w.cfg.Cluster.Status().Get().Problem, "this node is on its way into its cluster; the row CLUSTER of sidecar status has more")
	}
	found := w.cfg.Client.Diagnose(ctx)
	if problem := w.cfg.Cluster.MemberProblem(); problem != "" {
		if own := w.cfg.Cluster.Membership().Get(); own.Local {
			found = withoutServer(found, own.Servers[0])
		}
		found = append([]string{"this node: " + problem}, found...)
	}
	return strings.Join(found, "; ")
}

// withoutServer returns the faults of all servers except one: the manager knows more about this node's own.
func withoutServer(found []string, server string) []string {
	return slices.DeleteFunc(found, func(text string) bool {
		return strings.HasPrefix(text, server+" ") || strings.HasPrefix(text, server+":")
	})
}

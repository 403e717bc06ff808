package app

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

// etcdProblem is a problem of etcd. The zero value: none is known.
type etcdProblem struct {
	text string
	full bool // the database is full, so etcd refuses writes
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

// watchEtcdProblem publishes why etcd does not answer, or answers with errors, until ctx ends. The
// client library's error rarely reports more than a timeout.
func (a *App) watchEtcdProblem(ctx context.Context) error {
	var counted int64
	var asked time.Time
	pauses := diagnosisPauses()
	for {
		contact, contactChanged := a.etcd.Contact().Load()
		_, clusterChanged := a.cluster.Status().Load()
		members, membersChanged := a.cluster.Members().Load()
		suspected := !contact.Connected && contact.Problem != "" || contact.Refused > counted || reportFull(members) ||
			a.etcdProblem.Get() != etcdProblem{}
		counted = contact.Refused
		switch now := time.Now(); {
		case suspected:
			asked = now
			a.askEtcd(ctx)
		case now.Sub(asked) >= etcdFullInterval:
			asked = now
			a.askIfFull(ctx)
		}
		switch now := a.etcdProblem.Get(); {
		case now == etcdProblem{}:
			pauses.Reset()
			waitFor(ctx, etcdFullInterval, contactChanged, clusterChanged, membersChanged)
		case contact.Connected: // etcd may be healthy again without a change
			pauses.Reset()
			waitFor(ctx, backoff.Spread(minDiagnosisPause), clusterChanged)
		case awaitEtcd(ctx, a.etcd.Contact(), pauses.Next(), clusterChanged):
			pauses.Reset()
			waitFor(ctx, backoff.Spread(minDiagnosisPause), clusterChanged)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// reportFull reports whether a member reports a full database. The sidecars that run members ask
// them every few seconds.
func reportFull(members []cluster.Observed) bool {
	return slices.ContainsFunc(members, func(m cluster.Observed) bool { return m.Full })
}

func diagnosisPauses() backoff.Backoff {
	return backoff.Backoff{First: minDiagnosisPause, Max: maxDiagnosisPause, Jitter: backoff.Apart}
}

// awaitEtcd waits until etcd answers again, until another change, or for the pause at most. It
// reports whether etcd answers.
func awaitEtcd(ctx context.Context, of *event.Value[etcd.Contact], pause time.Duration, other <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	for {
		contact, contactChanged := of.Load()
		if contact.Connected {
			return true
		}
		if !event.Wait(ctx, contactChanged, other) {
			return false
		}
		select {
		case <-other:
			return false
		default:
		}
	}
}

// waitFor waits for a change, but at most for the pause.
func waitFor(ctx context.Context, pause time.Duration, changes ...<-chan struct{}) {
	limited, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	event.Wait(limited, changes...)
}

// askIfFull asks the server in use, and all servers if its database is full.
func (a *App) askIfFull(ctx context.Context) {
	if a.etcd.Contact().Get().Connected && a.etcd.Full(ctx) {
		a.askEtcd(ctx)
	}
}

// askEtcd asks the servers, and sets the problem by their answers.
func (a *App) askEtcd(ctx context.Context) {
	now := etcdProblem{text: a.diagnoseEtcd(ctx), full: a.etcd.Contact().Get().Connected && a.etcd.Full(ctx)}
	if now == a.etcdProblem.Get() || ctx.Err() != nil {
		return
	}
	a.etcdProblem.Set(now)
	if now.text != "" && !a.joinsNow() {
		a.log.Warn("etcd cannot be used", "problem", now.text)
	}
}

// joinsNow reports whether this node uses the sidecars' etcd, and is still joining its cluster. The
// cluster manager knows better why it waits, and logs it.
func (a *App) joinsNow() bool {
	return a.cfg.Embedded != nil && a.cluster.Status().Get().State != cluster.Running
}

// diagnoseEtcd asks the servers, unless the cluster manager knows more.
func (a *App) diagnoseEtcd(ctx context.Context) string {
	if a.joinsNow() {
		return cmp.Or(a.cluster.Status().Get().Problem, "this node is on its way into its cluster; the row CLUSTER of sidecar status has more")
	}
	found := a.etcd.Diagnose(ctx)
	if problem := a.cluster.MemberProblem(); problem != "" {
		found = append([]string{"this node: " + problem}, found...)
	}
	return strings.Join(found, "; ")
}

// EtcdFlags returns the flags with which a command of this program reaches the same keys, with a
// leading space, quoted for a shell. dataDir is the data directory of this machine's member, which
// contains the servers and the certificates; empty: there is none.
func EtcdFlags(cfg etcd.Config, dataDir string) string {
	var b strings.Builder
	add := func(flag, value string) {
		if value != "" {
			b.WriteString(" --" + flag + "=" + shellQuoted(value))
		}
	}
	if dataDir != "" {
		add("data-dir", dataDir)
		cfg = etcd.Config{Prefix: cfg.Prefix}
	}
	add("etcd-servers", strings.Join(cfg.Endpoints, ","))
	if strings.TrimSuffix(cfg.Prefix, "/") != defaultEtcdPrefix {
		add("etcd-prefix", cfg.Prefix)
	}
	add("etcd-cafile", cfg.CAFile)
	add("etcd-certfile", cfg.CertFile)
	add("etcd-keyfile", cfg.KeyFile)
	return b.String()
}

// defaultEtcdPrefix is the default of the flag --etcd-prefix, without its last slash.
const defaultEtcdPrefix = "/lockstep"

// shellQuoted quotes s as one word of a shell.
func shellQuoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:,@%+=[]", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package election

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

var errDue = errors.New("a full pass is due")

// logLines is a log that a test can wait for.
type logLines struct{ *event.Value[[]string] }

func (l logLines) Write(p []byte) (int, error) {
	event.Update(l.Value, func(was []string) []string { return append(slices.Clip(was), string(bytes.TrimSpace(p))) })
	return len(p), nil
}

func countLines(all []string, parts ...string) int {
	n := 0
	for _, line := range all {
		found := true
		for _, part := range parts {
			found = found && strings.Contains(line, part)
		}
		if found {
			n++
		}
	}
	return n
}

// etcd has no space left: the leader tries to write the status after longer and
// longer pauses, and warns once.
func TestElection_etcdRefusesTheStatus(t *testing.T) {
	w := newWorld(t)
	log := logLines{event.New[[]string](nil)}
	n := w.start("a", "1.0.0", options{log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	n.awaitStep(protocol.StepHold)
	empty := etcdtest.Fill(t, w.raw)
	event.Update(n.local, func(l protocol.Local) protocol.Local { l.Digest = "another"; return l })
	const refused = "status not written, trying again"
	all := await(t, log.Value, "five attempts", func(l []string) bool { return countLines(l, refused) >= 5 })
	if got := countLines(all, refused, "level=WARN"); got != 1 {
		t.Errorf("%d warnings of %d attempts, want 1", got, countLines(all, refused))
	}
	empty()
	await(t, n.election.State(), "the new content is kept", func(s State) bool {
		return s.Step.Rule == protocol.KeepTarget && s.Step.Work.Content.Digest == "another"
	})
}

// A pass that fails again and again is repeated after longer and longer pauses, also
// if each failure makes the leader write the status with another content epoch. New
// content begins at once.
func TestLeadership_pausesSurviveTheStatus(t *testing.T) {
	w := newWorld(t)
	local := localOf(t, "a", "1.0.0", "0.0.0")
	w.withLeadership(local, func(ctx context.Context, l *leadership) {
		work := protocol.Work{Content: protocol.Content{Release: local.Version.Release, Digest: local.Digest, Epoch: 1}}
		fail := func() time.Duration {
			work.Content.Epoch++
			l.job = &job{step: protocol.Step{Kind: protocol.StepReconcile, Work: work}, cancel: func() {}, done: closed()}
			l.collect()
			l.beginRound()
			in, err := l.gather(ctx)
			if err != nil {
				t.Fatal(err)
			}
			st := protocol.Status{State: protocol.Working, Version: local.Version, ContentRelease: work.Content.Release, Digest: work.Content.Digest, ContentEpoch: work.Content.Epoch + 1}
			l.write(ctx, protocol.Step{Kind: protocol.StepWrite, Status: st, Guard: protocol.Guard{Epoch: l.epoch, StatusRevision: in.Status.Revision}})
			return l.clock.jobs.pauses.Pause()
		}
		var last time.Duration
		for range 4 {
			pause := fail()
			if pause <= last || l.clock.jobs.due(l.clock.now) {
				t.Errorf("got a pause of %s after one of %s; may begin at once: %t", pause, last, l.clock.jobs.due(l.clock.now))
			}
			last = pause
		}
		in, err := l.gather(ctx)
		if err != nil {
			t.Fatal(err)
		}
		st := in.Status.Status
		st.Digest = "new"
		l.write(ctx, protocol.Step{Kind: protocol.StepWrite, Status: st, Guard: protocol.Guard{Epoch: l.epoch, StatusRevision: in.Status.Revision}})
		if !l.clock.jobs.due(l.clock.now) {
			t.Error("other content has to wait for what failed")
		}
	})
}

func closed() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

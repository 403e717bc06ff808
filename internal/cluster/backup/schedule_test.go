package backup_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/backup"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// running is a schedule that runs until its test ends it.
type running struct {
	*testing.T
	schedule *backup.Schedule
	end      func()
}

func startSchedule(t *testing.T, c *etcd.Client, plan backup.Plan, votes func() bool) running {
	t.Helper()
	s := backup.NewSchedule(backup.ScheduleConfig{
		Plan: plan, Client: c, Votes: votes, DatabaseSize: func() int64 { return 1 << 20 }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return running{t, s, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}}
}

func (r running) await(what string, holds func(backup.ScheduleState) bool) backup.ScheduleState {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	for {
		now, changed := r.schedule.State().Load()
		if holds(now) {
			return now
		}
		if !event.Wait(ctx, changed) {
			r.Fatalf("%s: got %+v", what, now)
		}
	}
}

func mustList(t *testing.T, dir string) []backup.Scheduled {
	t.Helper()
	all, err := backup.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Snapshots of a real etcd are saved again and again, the oldest are deleted, and the newest one that is
// not damaged is restored.
func TestSchedule(t *testing.T) {
	n, dir := newNode(t), filepath.Join(t.TempDir(), "deep", "snapshots")
	n.run(t, func(c *etcd.Client, _ member.State) {
		put(t, c, keys.Cluster(), keys.Node("b"))
		r := startSchedule(t, c, backup.Plan{Every: 20 * time.Millisecond, Keep: 3, Dir: dir}, func() bool { return true })
		first := r.await("the first one", func(s backup.ScheduleState) bool { return s.File != "" })
		r.await("four more", func(s backup.ScheduleState) bool {
			_, err := os.Stat(first.File)
			return s.Kept == 3 && s.Problem == "" && err != nil
		})
		r.end()
	})
	all := mustList(t, dir)
	if len(all) != 3 || !all[0].Time.After(all[1].Time) || !all[1].Time.After(all[2].Time) {
		t.Fatalf("got %v", all)
	}
	for _, s := range all {
		if info, err := os.Stat(s.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", s.File, info, err)
		}
	}
	// Of the future, damaged, not complete, of people: none of these is the newest one.
	future := filepath.Join(dir, "snapshot-20991231T235959.000Z.db")
	for _, file := range []string{future, filepath.Join(dir, "zz.db"), filepath.Join(dir, "snapshot-20991231T235959.000Z.db.1.part")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(all[0].File, 1000); err != nil {
		t.Fatal(err)
	}
	newest, passed, err := backup.Latest(dir, time.Now())
	if err != nil || newest != all[1] || len(passed) != 2 || !strings.Contains(passed[0].Error(), "future") || !strings.Contains(passed[1].Error(), all[0].File) {
		t.Fatalf("got %v, %v, %v", newest, passed, err)
	}
	if _, err := restore(t, n, newest.File); err != nil {
		t.Fatal(err)
	}
	n.marker = n.read(t)
	n.run(t, func(c *etcd.Client, _ member.State) {
		if got := listing(t, c); got[keys.Node("b")] != "value" {
			t.Errorf("got %v", got)
		}
		// The clock went back: the next one is saved all the same, and an interrupted one is removed.
		r := startSchedule(t, c, backup.Plan{Every: time.Hour, Keep: 3, Dir: dir}, func() bool { return true })
		r.await("the newest that there is", func(s backup.ScheduleState) bool { return s.File == all[0].File })
		r.end()
		r = startSchedule(t, c, backup.Plan{Every: time.Millisecond, Keep: 3, Dir: dir}, func() bool { return true })
		r.await("a new one", func(s backup.ScheduleState) bool { return s.Newest.After(all[0].Time) })
		r.end()
		if parts, err := filepath.Glob(filepath.Join(dir, "*.part")); err != nil || len(parts) > 0 {
			t.Errorf("got %v, %v", parts, err)
		}
		if _, err := os.Stat(future); err != nil {
			t.Error(err)
		}
	})
}

// A directory that cannot be written is a problem until it can, and a node without a voter saves nothing.
func TestSchedule_fails(t *testing.T) {
	n, dir := newNode(t), filepath.Join(t.TempDir(), "snapshots")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.run(t, func(c *etcd.Client, _ member.State) {
		var votes atomic.Bool
		r := startSchedule(t, c, backup.Plan{Every: 20 * time.Millisecond, Keep: 3, Dir: dir}, votes.Load)
		r.await("nothing", func(s backup.ScheduleState) bool { return !s.Runs() && s.Problem == "" })
		r.end()
		votes.Store(true)
		r = startSchedule(t, c, backup.Plan{Every: 20 * time.Millisecond, Keep: 3, Dir: dir}, votes.Load)
		failed := r.await("a problem", func(s backup.ScheduleState) bool { return strings.Contains(s.Problem, dir) })
		if w, warns := failed.Warning(time.Now()); !warns || !strings.Contains(w.Message, dir) {
			t.Errorf("got %v, %v", w, warns)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
		saved := r.await("the end of the problem", func(s backup.ScheduleState) bool { return s.File != "" && s.Problem == "" })
		if w, warns := saved.Warning(saved.Newest); warns {
			t.Errorf("got %v", w)
		}
		r.end()
	})
	if _, _, err := backup.Latest(t.TempDir(), time.Now()); err == nil || !strings.Contains(err.Error(), "no snapshot") {
		t.Errorf("got %v", err)
	}
}

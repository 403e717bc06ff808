package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/report"
)

func newManager(t *testing.T, embedded *Embedded) *Manager {
	t.Helper()
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return NewManager(Config{Client: client, Embedded: embedded, Log: slog.New(slog.DiscardHandler)})
}

// A member that runs without a leader cannot be used.
func TestManager_memberProblem(t *testing.T) {
	m := newManager(t, &Embedded{DataDir: t.TempDir(), Address: "127.0.0.1"})
	m.member.Set(member.State{Running: true, Ready: true, MemberID: 0xa1})
	for _, tt := range []struct {
		observed []Observed
		want     string
	}{
		{nil, ""},
		{[]Observed{{Member: report.Member{ID: "a1", Healthy: true}}, {Member: report.Member{ID: "b2"}}}, ""},
		{[]Observed{{Member: report.Member{ID: "a1", Problem: "it has no leader"}}, {Member: report.Member{ID: "b2"}}}, "it has no leader: start the other nodes"},
		{[]Observed{{Member: report.Member{ID: "a1", Problem: "it does not answer"}}, {Member: report.Member{ID: "b2", Healthy: true}}}, "its process runs, and does not answer"},
		{[]Observed{{Member: report.Member{ID: "a1", Problem: "memberID:161 alarm:CORRUPT "}}}, "memberID:161 alarm:CORRUPT"},
		{[]Observed{{Member: report.Member{ID: "a1"}}}, "it is not healthy"},
	} {
		m.observed.Set(tt.observed)
		if got := m.MemberProblem(); got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%+v: got %q, want %q", tt.observed, got, tt.want)
		}
	}
	// People removed it: until the services have stopped, its sidecar says so.
	m.shared.follow(datadir.Layout(t.TempDir()), datadir.Marker{Phase: datadir.Removed})
	m.member.Set(member.State{})
	if got := m.MemberProblem(); !strings.HasPrefix(got, "it was removed from the cluster, so this sidecar ends; ") {
		t.Errorf("a removed member: got %q", got)
	}
}

// The message with which etcd panics on an old copy of a directory ends the member for good.
func TestMemberEnded_oldCopy(t *testing.T) {
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	r := &resident{dir: dir, marker: datadir.Marker{MemberID: "a1"}}
	t.Cleanup(func() { _ = dir.Close() })
	got := r.memberEnded(&memberRun{err: member.ErrOldCopy})
	for _, want := range []string{"is an older copy", "`sidecar cluster remove a1 --data-dir=", "`sidecar cluster token create --data-dir=", "docs/clusters.md#replace-a-node"} {
		if got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("got %v, want %q in it", got, want)
		}
	}
}

// A member that stays unhealthy keeps the time at which that began, also when its problem
// changes.
func TestKeepSince(t *testing.T) {
	first, then := time.Unix(10, 0), time.Unix(20, 0)
	before := keepSince([]Observed{{Member: report.Member{ID: "a"}}, {Member: report.Member{ID: "b", Healthy: true}}}, nil, nil, first)
	now := keepSince([]Observed{{Member: report.Member{ID: "a", Problem: "it has no leader"}}, {Member: report.Member{ID: "b"}}, {Member: report.Member{ID: "c", Healthy: true}}}, nil, before, then)
	if !now[0].Since.Equal(first) || !now[1].Since.Equal(then) || !now[2].Since.IsZero() {
		t.Errorf("got %+v", now)
	}
	// So does one whose removal was decided, healthy or not.
	leaving := []members.Member{{ID: "a", Leaving: true}, {ID: "b"}}
	before = keepSince([]Observed{{Member: report.Member{ID: "a"}}, {Member: report.Member{ID: "b"}}}, leaving, nil, first)
	leaving[1].Leaving = true
	now = keepSince([]Observed{{Member: report.Member{ID: "a", Healthy: true}}, {Member: report.Member{ID: "b"}}, {Member: report.Member{ID: "c"}}}, leaving, before, then)
	if !now[0].LeavingSince.Equal(first) || !now[1].LeavingSince.Equal(then) || !now[2].LeavingSince.IsZero() {
		t.Errorf("got %+v", now)
	}
}

// Any number of waiters, before and after the end, learn the same.
func TestManager_external(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		var waiters sync.WaitGroup
		for range 3 {
			waiters.Go(func() {
				if err := m.WaitFinished(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if now := m.Status().Get(); now.State != ConnectingExternal {
			t.Errorf("before etcd has answered: got %+v", now)
		}
		m.cfg.Client.Contact().Set(etcd.Contact{Last: m.Status().Get().Since})
		waiters.Wait()
		now := m.Status().Get()
		if now.State != Running || len(now.Transitions) != 2 || now.Transitions[0].To != string(ConnectingExternal) || now.Transitions[1].To != string(Running) {
			t.Errorf("got %+v", now)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v", err)
		}
		if err := m.WaitFinished(t.Context()); err != nil || m.Status().Get().State != Running {
			t.Errorf("after the end: %v, %+v", err, m.Status().Get())
		}
	})
}

func TestManager_stoppedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, nil)
		limited, giveUp := context.WithCancel(t.Context())
		giveUp()
		if err := m.WaitFinished(limited); !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter that gives up: got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v", err)
		}
		if err := m.WaitFinished(t.Context()); err == nil || err.Error() != stopped {
			t.Errorf("got %v", err)
		}
	})
}

// A refused directory is an error for good, which all waiters learn.
func TestManager_refused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, &Embedded{DataDir: dir, Node: "a", Address: "127.0.0.1", PeerPort: 1, ClientPort: 2, JoinPort: 3})
	err := m.Run(t.Context())
	refused, is := errors.AsType[*datadir.RefusedError](err)
	if !is || !strings.Contains(refused.Problem, "notes.txt") {
		t.Fatalf("got %v", err)
	}
	if err := m.WaitFinished(t.Context()); err == nil || err.Error() != refused.Error() || m.Status().Get().State != Failed {
		t.Errorf("got %v, %+v", err, m.Status().Get())
	}
}

// A usual wait of a node is no warning, unless it lasts. The status shows it at once, and the
// log shows it once at each level.
func TestManager_show(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newManager(t, nil)
		m.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}}))
		for _, tc := range []struct {
			after         time.Duration
			problem, want string
		}{
			{0, "", ""},
			{time.Second, "busy", "level=INFO problem=busy\n"},
			{time.Second, "busy", ""},
			{0, "", ""},
			{time.Second, "busy", "level=INFO problem=busy\n"},
			{usualWait, "busy", "level=WARN problem=busy\n"},
			{time.Second, "busy", ""},
			{0, "unreachable", "level=WARN problem=unreachable\n"},
			{0, "", ""},
		} {
			<-time.After(tc.after)
			log.Reset()
			m.show(tc.problem)
			if got := m.Status().Get().Problem; got != tc.problem || log.String() != tc.want {
				t.Errorf("%q: the status has %q, the log %q, want %q", tc.problem, got, log.String(), tc.want)
			}
		}
	})
}

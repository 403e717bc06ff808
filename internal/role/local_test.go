package role

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/protocol"
)

var (
	controller = protocol.Roles{Controller: true}
	worker     = protocol.Roles{Worker: true}
)

// fleetWith is an observation with this node's record.
func fleetWith(r protocol.Record) protocol.Fleet {
	return protocol.Fleet{Revision: 1, Records: []*protocol.Record{&r}}
}

func openDisk(t *testing.T, path string) *Disk {
	t.Helper()
	d := NewDisk(path)
	if err := d.Load(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFetcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "roles.json")
		fleet := event.New(protocol.Fleet{})
		f := NewFetcher(FetcherConfig{Node: "a", Fleet: fleet, First: controller, Disk: openDisk(t, path), Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = f.Run(ctx) })
		defer run.Wait()
		defer cancel()
		want := func(when string, roles protocol.Roles, source Source) {
			t.Helper()
			synctest.Wait()
			if got := f.Local().Get(); got.Roles != roles || got.Source != source {
				t.Errorf("%s: got %v from %q", when, got.Roles.Names(), got.Source)
			}
		}
		want("nothing is known", protocol.Roles{}, "")
		fleet.Set(protocol.Fleet{Revision: 1})
		want("there is no record", controller, FromCluster)
		fleet.Set(fleetWith(protocol.Record{ID: "a", Node: protocol.Node{ID: "a", Roles: worker}}))
		want("the record has other roles", worker, FromCluster)
		fleet.Set(fleetWith(protocol.Record{ID: "a", Problem: "garbage"}))
		want("the record is corrupt", worker, FromCluster)

		// The next sidecar does not reach etcd.
		cancel()
		run.Wait()
		next, stop := context.WithCancel(t.Context())
		defer stop()
		f = NewFetcher(FetcherConfig{Node: "a", Fleet: event.New(protocol.Fleet{}), First: controller, Disk: openDisk(t, path), Log: slog.New(slog.DiscardHandler)})
		run.Go(func() { _ = f.Run(next) })
		want("after a restart without etcd", worker, FromDisk)
	})
}

// Roles that cannot be kept on disk count all the same, and are kept when that is possible again.
// Meanwhile a worker fails, which is a warning.
func TestFetcher_diskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "missing")
		path := filepath.Join(dir, "roles.json")
		fleet := event.New(fleetWith(protocol.Record{ID: "a", Node: protocol.Node{ID: "a", Roles: worker}}))
		f := NewFetcher(FetcherConfig{Node: "a", Fleet: fleet, First: controller, Disk: openDisk(t, path), Log: slog.New(slog.DiscardHandler)})
		supervisor := supervise.New(slog.New(slog.DiscardHandler), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = f.Run(ctx) })
		run.Go(func() { _ = supervisor.Keep("roles-file", f.keep, nil)(ctx) })
		defer run.Wait()
		defer cancel()
		<-time.After(time.Hour)
		if got := f.Local().Get(); got.Roles != worker || got.Source != FromCluster {
			t.Errorf("got %v from %q", got.Roles.Names(), got.Source)
		}
		if first, _ := f.First(); first != worker {
			t.Errorf("a record gets %v", first.Names())
		}
		if failures := supervisor.Failures().Get(); len(failures) != 1 || !strings.HasPrefix(failures[0].Problem, "roles not kept on disk: ") {
			t.Errorf("got the failures %+v", failures)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		if kept, found := openDisk(t, path).Roles(); !found || kept != worker {
			t.Errorf("on disk: got %v, %t", kept.Names(), found)
		}
		if failures := supervisor.Failures().Get(); len(failures) > 0 {
			t.Errorf("got the failures %+v", failures)
		}
	})
}

// A failed write counts in part: the roles do, a start of services does not.
func TestDisk_notWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	path := filepath.Join(dir, "roles.json")
	d := openDisk(t, path)
	if d.SetRoles(worker) == nil || d.SetStartedFor("1.1.0") == nil || d.KeepRoles() == nil {
		t.Error("a missing directory is no error")
	}
	if roles, found := d.Roles(); !found || roles != worker || d.StartedFor() != "" {
		t.Errorf("got %v, %t, started for %q", roles.Names(), found, d.StartedFor())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.KeepRoles(); err != nil {
		t.Error(err)
	}
	again := openDisk(t, path)
	if roles, found := again.Roles(); !found || roles != worker || again.StartedFor() != "" {
		t.Errorf("on disk: got %v, %t, started for %q", roles.Names(), found, again.StartedFor())
	}
	// The content of the file is not written again.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := d.KeepRoles(); err != nil {
		t.Error(err)
	}
}

func TestDisk_damaged(t *testing.T) {
	for _, text := range []string{"", "{", `{"roles":["king"]}`, `{"roles":3}`} {
		path := filepath.Join(t.TempDir(), "roles.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := NewDisk(path).Load(); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// A sidecar without a directory keeps nothing.
func TestDisk_nil(t *testing.T) {
	var d *Disk
	if err := d.SetRoles(controller); err != nil {
		t.Error(err)
	}
	if err := d.Load(); err != nil {
		t.Error(err)
	}
	if _, found := d.Roles(); found || d.StartedFor() != "" {
		t.Error("something was kept")
	}
}

// A record that disappears loses no roles: those on disk count, and the record is created
// again with them.
func TestFetcher_recordDisappears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "roles.json")
		if err := openDisk(t, path).SetRoles(worker); err != nil {
			t.Fatal(err)
		}
		fleet, disk := event.New(protocol.Fleet{Revision: 1}), NewDisk(path)
		f := NewFetcher(FetcherConfig{Node: "a", Fleet: fleet, First: controller, Disk: disk, Log: slog.New(slog.DiscardHandler)})
		if roles, known := f.First(); known {
			t.Errorf("before the disk was read: got %v", roles.Names())
		}
		if err := disk.Load(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = f.Run(ctx) })
		defer run.Wait()
		defer cancel()
		want := func(when string, roles protocol.Roles, source Source) {
			t.Helper()
			synctest.Wait()
			if got := f.Local().Get(); got.Roles != roles || got.Source != source {
				t.Errorf("%s: got %v from %q", when, got.Roles.Names(), got.Source)
			}
			if first, known := f.First(); first != roles || !known {
				t.Errorf("%s: a record gets %v, %t", when, first.Names(), known)
			}
		}
		want("there is no record", worker, FromDisk)
		both := protocol.Roles{Controller: true, Worker: true}
		fleet.Set(fleetWith(protocol.Record{ID: "a", Node: protocol.Node{ID: "a", Roles: both}}))
		want("people have given a role", both, FromCluster)
		fleet.Set(protocol.Fleet{Revision: 2})
		want("the record was deleted", both, FromDisk)
	})
}

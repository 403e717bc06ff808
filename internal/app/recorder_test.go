package app

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/trace"
)

// Without a member of its own, a sidecar keeps its recording too, where its directory exists and no other user writes.
func TestKeepRecording_external(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: etcdtest.New(t).Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	own, foreign, open := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.WriteFile(datadir.Layout(foreign).Marker(), nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		own: "recording written", foreign: "a member of an etcd that other sidecars run", open: "the recording was not kept",
		filepath.Join(own, "missing"): "make it",
	} {
		var log bytes.Buffer
		a := &App{
			cfg:  Config{DataDir: dir},
			etcd: client, log: slog.New(slog.NewTextHandler(&log, nil)), recorder: trace.NewRecorder(recordingSize),
		}
		if err := a.wireTrace(); err != nil {
			t.Fatal(err)
		}
		a.keepRecording()
		_, err := os.Stat(datadir.Layout(dir).Recording())
		if kept := err == nil; kept != (dir == own) || !strings.Contains(log.String(), want) {
			t.Errorf("%s: kept %t, want the log to contain %q:\n%s", dir, kept, want, log.String())
		}
	}
}

// A data directory that may belong to another sidecar stays as it is.
func TestKeepRecording(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: etcdtest.New(t).Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	dir := t.TempDir()
	a := &App{
		cfg:  Config{Embedded: &cluster.Embedded{DataDir: dir}},
		etcd: client, log: slog.New(slog.DiscardHandler), recorder: trace.NewRecorder(recordingSize),
	}
	if err := a.wireTrace(); err != nil {
		t.Fatal(err)
	}
	a.trace(trace.Event{Elected: &trace.Elected{Epoch: 7}})
	file := datadir.Layout(dir).Recording()

	a.keepRecording()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("etcd was never reached: got %v, want no file", err)
	}
	if _, err := client.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	a.keepRecording()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, err := trace.ReadRecording(f)
	if err != nil || len(got) != 1 || got[0].Elected == nil || got[0].Elected.Epoch != 7 {
		t.Errorf("got %v, %v, want the election", got, err)
	}
}

package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/trace"
)

// A data directory that may belong to another sidecar stays as it is.
func TestKeepRecording(t *testing.T) {
	client, err := etcd.NewClient(etcd.Config{Endpoints: etcdtest.New(t).Endpoints(), Prefix: "/lockstep/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	dir := t.TempDir()
	p := &parts{
		cfg: Config{Embedded: &cluster.Embedded{DataDir: dir}},
		app: &App{etcd: client, log: slog.New(slog.DiscardHandler), recorder: trace.NewRecorder(recordingSize)},
	}
	if err := p.wireTrace(); err != nil {
		t.Fatal(err)
	}
	p.trace(trace.Event{Elected: &trace.Elected{Epoch: 7}})
	a, file := p.app, datadir.Layout(dir).Recording()

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

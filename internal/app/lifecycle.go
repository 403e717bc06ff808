package app

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/supervise"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// Run runs the sidecar until ctx ends, and stops it in order: it closes the gate, waits until the
// node's address has left the Service kubernetes, gives up the leadership, waits for the shutdown
// delay, during which the API still answers, stops the node's services, deletes the presence, and
// an ephemeral record with it, and last stops this node's etcd member. It returns nil when ctx
// ended, and otherwise why the sidecar cannot continue.
func (a *App) Run(ctx context.Context) error {
	if !a.used.CompareAndSwap(false, true) {
		return errors.New("this sidecar has already run, or was closed: make a new one")
	}
	// The etcd member runs longer than the API and its workers, and these longer than the node itself
	// (package role).
	member := supervise.NewGroup(ctx)
	defer member.End()
	serving := supervise.NewGroup(ctx)
	defer serving.End()
	member.Start("cluster", a.supervisor.Contain("cluster", a.cluster.Run))
	serving.Start("api", func(ctx context.Context) error { return a.server.Run(ctx, a.listener) })
	for _, w := range a.workers {
		serving.Start(w.name, a.supervisor.Keep(w.name, w.run, nil))
	}
	local := a.show.Local.Get()
	a.log.Info("sidecar started", "url", a.url, "version", local.Version.String(), "digest", local.Digest)
	err := a.roles.Run(ctx, member, serving)
	serving.End()
	member.End()
	err = errors.Join(supervise.Err(member, serving), err)
	if err != nil {
		a.keepRecording()
	}
	for _, end := range a.ends {
		err = errors.Join(err, end())
	}
	err = errors.Join(err, a.etcd.Close())
	a.registry.release()
	a.log.Info("stopped")
	return err
}

// keepRecording writes the recording into the data directory when the sidecar ends by an error. Before etcd was
// reached, the directory may be in use by another sidecar, or refused: keepRecording leaves it alone, and there
// is little to record.
func (a *App) keepRecording() {
	data := datadir.Layout(cmp.Or(a.dataDir(), a.cfg.DataDir))
	if data == "" || !a.etcd.Contact().Get().Reached() {
		return
	}
	if problem := a.noRecordingIn(data); problem != "" {
		a.log.Warn("the recording was not kept", "dataDir", string(data), "problem", problem)
		return
	}
	file := data.Recording()
	if err := a.recorder.WriteFile(file); err != nil {
		a.log.Warn("the recording was not written", "err", err)
		return
	}
	a.log.Info("recording written", "file", file)
}

// noRecordingIn says why the data directory of a sidecar whose etcd runs elsewhere takes no recording: such a
// sidecar does not need the directory, so it has not checked it.
func (a *App) noRecordingIn(data datadir.Layout) string {
	if a.cfg.Embedded != nil {
		return ""
	}
	if info, err := os.Stat(string(data)); err != nil || !info.IsDir() {
		return "there is no such directory; make it, and the next recording is kept"
	}
	if _, err := os.Stat(data.Marker()); err == nil {
		return "it has a member of an etcd that other sidecars run"
	}
	return trusted.NewFileProblem(data.Recording())
}

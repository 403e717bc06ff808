package app

import (
	"fmt"
	"os"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/trace"
)

// recordingSize is the size of the flight recorder in bytes: a day of an idle fleet.
const recordingSize = 8 << 20

// record sets a hook that passes events to the flight recorder, and to the hook of tests.
func (a *App) record(tests trace.Hook) {
	a.recorder = trace.NewRecorder(recordingSize)
	hook := a.recorder.Hook()
	a.trace = func(e trace.Event) {
		hook(e)
		if tests != nil {
			tests(e)
		}
	}
}

// keepRecording writes the recording into the data directory when the sidecar ends by an error.
// Without a data directory there is no safe place to write to. Before etcd was reached, the
// directory may be in use by another sidecar, or refused: keepRecording leaves it alone, and there
// is little to record.
func (a *App) keepRecording() {
	dir := a.dataDir()
	if dir == "" || !a.etcd.Contact().Get().Reached() {
		return
	}
	if err := a.writeRecording(datadir.Layout(dir).Recording()); err != nil {
		a.log.Warn("the recording was not written", "err", err)
	}
}

func (a *App) writeRecording(name string) (err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	if _, err := a.recorder.WriteTo(file); err != nil {
		_ = file.Close() // the write failed
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	a.log.Info("recording written", "file", name)
	return nil
}

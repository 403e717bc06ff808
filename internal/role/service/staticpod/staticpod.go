package staticpod

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/role/service/driver"
)

// Config configures one service. All fields are required, except Log.
type Config struct {
	Name      string // of the service
	Manifest  []byte // of the pod
	Directory string // the directory that the kubelet reads
	// Refused reports whether no program listens at the pod's address.
	Refused func(ctx context.Context) bool
	// StopTimeout is how long the pod may listen after its manifest was removed. It should be
	// longer than the pod's terminationGracePeriodSeconds.
	StopTimeout time.Duration
	Log         *slog.Logger // nil: none
}

// Driver runs a service as a static pod.
type Driver struct{ cfg Config }

// New returns a driver. It starts nothing; Run does.
func New(cfg Config) *Driver {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Driver{cfg: cfg}
}

// LastLines returns nothing: the kubelet keeps the output of the pod.
func (d *Driver) LastLines() []string { return nil }

const (
	// endPause is the time between two attempts to connect to a pod that must end.
	endPause = 100 * time.Millisecond
	// checkInterval is the time between two checks that the manifest is still in place.
	checkInterval = 5 * time.Second
)

// Run places the manifest and keeps it in place until ctx ends. Then it removes the manifest, and
// returns when the pod has ended. It leaves a manifest with the same bytes, and its pod, as they
// are.
func (d *Driver) Run(ctx context.Context, running func()) driver.Exit {
	if ctx.Err() != nil {
		return d.remove(ctx)
	}
	if err := d.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return d.remove(ctx)
		}
		return driver.Exit{Reason: err.Error(), StillRuns: true}
	}
	running()
	for backoff.Sleep(ctx, checkInterval) {
		if !d.inPlace() {
			reason := fmt.Sprintf("the manifest %s was changed or removed by another program", d.path())
			return driver.Exit{Reason: reason, StillRuns: true}
		}
	}
	return d.remove(ctx)
}

// begin places the manifest once no previous instance runs.
func (d *Driver) begin(ctx context.Context) error {
	if d.inPlace() {
		d.cfg.Log.InfoContext(ctx, "manifest in place", "file", d.path())
		return nil
	}
	if err := d.removeFile(); err != nil {
		return err
	}
	if !d.awaitEnd(ctx, 0) {
		return ctx.Err()
	}
	if err := place(d.path(), d.content()); err != nil {
		return fmt.Errorf("place the manifest: %w", err)
	}
	d.cfg.Log.InfoContext(ctx, "manifest placed", "file", d.path())
	return nil
}

// awaitEnd returns when no program listens at the pod's address. It reports false when ctx ends, or
// after the timeout; 0: no timeout.
func (d *Driver) awaitEnd(ctx context.Context, timeout time.Duration) bool {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for waited := false; ; waited = true {
		if d.cfg.Refused(ctx) {
			return true
		}
		if !waited {
			d.cfg.Log.InfoContext(ctx, "waiting for the pod before to end", "file", d.path())
		}
		if !backoff.Sleep(ctx, endPause) {
			return false
		}
	}
}

// remove removes the manifest, and returns when the pod has ended. A manifest of another program
// stays; then no pod of this service runs if nothing listens.
func (d *Driver) remove(ctx context.Context) driver.Exit {
	err := d.removeFile()
	if err != nil && !errors.Is(err, errNotOurs) {
		return driver.Exit{Reason: err.Error(), StillRuns: true}
	}
	// The caller's context has ended, which is why remove runs.
	ended := d.awaitEnd(context.WithoutCancel(ctx), d.cfg.StopTimeout)
	switch {
	case err != nil:
		return driver.Exit{Reason: err.Error(), StillRuns: !ended}
	case !ended:
		return driver.Exit{StillRuns: true, Reason: fmt.Sprintf(
			"the pod still listens %s after its manifest was removed: does a kubelet read %s?", d.cfg.StopTimeout, d.cfg.Directory)}
	}
	return driver.Exit{Reason: "manifest removed, pod ended"}
}

// prefix begins the names of our files.
const prefix = "lockstep-"

// mark is the first line of our files.
const mark = "# Placed by Lockstep, which removes it again. Do not edit: change the service.\n"

func fileOf(service string) string { return prefix + service + ".yaml" }

func (d *Driver) path() string { return filepath.Join(d.cfg.Directory, fileOf(d.cfg.Name)) }

func (d *Driver) content() []byte { return append([]byte(mark), d.cfg.Manifest...) }

func (d *Driver) inPlace() bool {
	now, err := os.ReadFile(d.path())
	return err == nil && bytes.Equal(now, d.content())
}

// errNotOurs is the error for a file without our mark.
var errNotOurs = errors.New("was not placed by Lockstep, and is left as it is: remove it, or give the service another name")

// removeFile removes the manifest, if it exists and is ours.
func (d *Driver) removeFile() error {
	text, err := os.ReadFile(d.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the manifest: %w", err)
	case !bytes.HasPrefix(text, []byte(mark)):
		return fmt.Errorf("%s %w", d.path(), errNotOurs)
	}
	if err := os.Remove(d.path()); err != nil {
		return fmt.Errorf("remove the manifest: %w", err)
	}
	d.cfg.Log.Info("manifest removed", "file", d.path())
	return durable.SyncDir(d.cfg.Directory)
}

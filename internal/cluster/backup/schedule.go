package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/trusted"
)

// Plan is which snapshots a node saves by itself.
type Plan struct {
	Every time.Duration // 0: none
	Keep  int           // how many; at least 1
	Dir   string        // where; it is made if it is missing
}

// ScheduleConfig configures a Schedule. All is required.
type ScheduleConfig struct {
	Plan   Plan
	Client *etcd.Client
	// Votes reports whether this node's member votes: other nodes save no snapshots.
	Votes func() bool
	// DatabaseSize is the size of the member's database in bytes; 0: it is not known.
	DatabaseSize func() int64
	Log          *slog.Logger
}

// Schedule saves snapshots again and again (docs/clusters.md#scheduled). It is the only writer
// of the files in Plan.Dir.
type Schedule struct {
	cfg   ScheduleConfig
	state *event.Value[ScheduleState]
}

// ScheduleState describes the work of a Schedule.
type ScheduleState struct {
	Timing
	File string // the newest one; empty: there is none
	Kept int    // how many there are
}

// NewSchedule returns a schedule. It starts nothing and reads no file.
func NewSchedule(cfg ScheduleConfig) *Schedule {
	return &Schedule{cfg: cfg, state: event.New(ScheduleState{Timing: Timing{Every: cfg.Plan.Every}})}
}

// State follows the saved snapshots and the last attempt.
func (s *Schedule) State() *event.Value[ScheduleState] { return s.state }

const (
	// reread is the longest pause between two looks at the directory: people may move files.
	reread = time.Minute
	// The pauses after a failure. None is longer than the interval.
	firstRetry, lastRetry = time.Minute, 15 * time.Minute
	// diskReserve stays free on the disk: etcd may use the same one, and stops without space.
	diskReserve = 256 << 20
)

// Run saves snapshots until ctx ends.
func (s *Schedule) Run(ctx context.Context) error {
	every := s.cfg.Plan.Every
	pauses := backoff.Backoff{First: min(firstRetry, every), Max: min(lastRetry, every)}
	for {
		now := time.Now()
		state := s.observe(now)
		s.state.Set(state)
		pause := reread
		if state.Runs() {
			pause = min(pause, max(state.Due().Sub(now), 0))
		}
		if pause > 0 {
			if !backoff.Sleep(ctx, pause) {
				return ctx.Err()
			}
			continue
		}
		err := s.save(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			pauses.Reset()
			state.Problem, state.Tried, state.Retry = "", time.Time{}, 0
		} else {
			state.Problem, state.Tried, state.Retry = err.Error(), time.Now(), pauses.Next()
			s.cfg.Log.Warn("snapshot not saved", "err", err, "retry", state.Retry)
		}
		s.state.Set(state)
	}
}

// observe lists the snapshots in the directory. The result of the last attempt stays.
func (s *Schedule) observe(now time.Time) ScheduleState {
	state := s.state.Get()
	switch votes := s.cfg.Votes(); {
	case !votes:
		state.Begun = time.Time{}
	case state.Begun.IsZero():
		state.Begun = now
	}
	all, _ := List(s.cfg.Plan.Dir) // a save meets the same error, and says so
	newest := newestUntil(all, now)
	state.Newest, state.File, state.Kept = newest.Time, newest.File, len(all)
	return state
}

// save saves one, and deletes those that are too many.
func (s *Schedule) save(ctx context.Context) error {
	dir := s.cfg.Plan.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	if err := removeParts(dir); err != nil {
		return err
	}
	if err := s.room(); err != nil {
		return err
	}
	file := filepath.Join(dir, fileName(time.Now()))
	saved, err := Save(ctx, s.cfg.Client, file)
	if err != nil {
		return err
	}
	s.cfg.Log.Info("snapshot saved", "file", file, "bytes", saved.Bytes, "keys", saved.Keys,
		"revision", saved.Revision, "stale", saved.Stale)
	return removeOld(dir, s.cfg.Plan.Keep)
}

// room requires enough space on the disk for another snapshot.
func (s *Schedule) room() error {
	free, err := datadir.Layout(s.cfg.Plan.Dir).FreeSpace()
	if err != nil {
		return fmt.Errorf("save a snapshot: %w", err)
	}
	if need := s.cfg.DatabaseSize() + diskReserve; free < need {
		return fmt.Errorf("save a snapshot: the disk of %q has %d MiB free, and %d MiB are needed, of which %d MiB stay free for etcd: "+
			"free space there, set a lower --snapshot-keep, or another --snapshot-dir", s.cfg.Plan.Dir, free>>20, need>>20, diskReserve>>20)
	}
	return nil
}

// A file's name contains its time in UTC, so the order of names is the order in time.
const (
	filePrefix, fileSuffix = "snapshot-", ".db"
	timeFormat             = "20060102T150405.000Z"
)

func fileName(at time.Time) string {
	return filePrefix + at.UTC().Format(timeFormat) + fileSuffix
}

// Scheduled is a file that a Schedule saved.
type Scheduled struct {
	File string
	Time time.Time
}

// List returns the snapshots that were saved by schedule in a directory, the newest first. It is
// empty if there is no directory.
func List(dir string) ([]Scheduled, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var out []Scheduled
	for _, entry := range slices.Backward(entries) { // ReadDir sorts them by name
		text, isOne := strings.CutPrefix(entry.Name(), filePrefix)
		text, complete := strings.CutSuffix(text, fileSuffix)
		at, err := time.Parse(timeFormat, text)
		if isOne && complete && err == nil && entry.Type().IsRegular() {
			out = append(out, Scheduled{filepath.Join(dir, entry.Name()), at})
		}
	}
	return out, nil
}

// newestUntil returns the newest snapshot that is not of the future, in case the clock was set back.
func newestUntil(all []Scheduled, now time.Time) Scheduled {
	for _, s := range all {
		if !s.Time.After(now) {
			return s
		}
	}
	return Scheduled{}
}

// Latest returns the newest snapshot of a directory that is not damaged, and that no other user could
// make or change: its content becomes the cluster's. damaged contains an error for each newer one that
// it passes over.
func Latest(dir string, now time.Time) (newest Scheduled, damaged []error, err error) {
	all, err := List(dir)
	if err != nil {
		return Scheduled{}, nil, err
	}
	for _, s := range all {
		if s.Time.After(now) {
			damaged = append(damaged, fmt.Errorf("%q is of the future: a clock is, or was, wrong", s.File))
			continue
		}
		if problem := trusted.NewFileProblem(s.File); problem != "" {
			damaged = append(damaged, fmt.Errorf("%q cannot be trusted: %s; to restore it all the same, name the file in place of --latest", s.File, problem))
			continue
		}
		if _, err := Verify(s.File); err != nil {
			damaged = append(damaged, err)
			continue
		}
		return s, damaged, nil
	}
	return Scheduled{}, damaged, errors.Join(append(damaged, fmt.Errorf("there is no snapshot in %q that can be restored", dir))...)
}

// removeOld deletes all but the newest ones.
func removeOld(dir string, keep int) error {
	all, err := List(dir)
	if err != nil {
		return err
	}
	for _, old := range all[min(keep, len(all)):] {
		if err := durable.Remove(old.File); err != nil {
			return fmt.Errorf("remove an old snapshot: %w", err)
		}
	}
	return nil
}

// removeParts deletes the files of interrupted saves.
func removeParts(dir string) error {
	parts, err := filepath.Glob(filepath.Join(dir, filePrefix+"*"+partSuffix))
	for _, part := range parts {
		err = errors.Join(err, durable.Remove(part))
	}
	if err != nil {
		return fmt.Errorf("remove what an interrupted snapshot has left: %w", err)
	}
	return nil
}

package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
)

const (
	// The pauses before a member is started again.
	minRestartPause = 200 * time.Millisecond
	maxRestartPause = 30 * time.Second
	// worked is how long a member must be ready before its next pause is the first
	// one again.
	worked = time.Minute
)

// Config configures a Supervisor. Command and Spec are required.
type Config struct {
	// Command is the program and its arguments that run Main of package child: this
	// program, with its hidden command.
	Command []string
	Spec    Spec
	// Lock is the locked file of the data directory. The child keeps it open too.
	// nil: none.
	Lock *os.File
	// Prepare is called before each start of the child. If it fails, the start
	// fails. nil: no call.
	Prepare func() error
	Log     *slog.Logger // nil: none
	// State and Measures follow the process. nil: new values.
	State    *event.Value[State]
	Measures *event.Value[Measures]
}

// Supervisor keeps one etcd member running.
type Supervisor struct {
	cfg      Config
	log      *slog.Logger
	state    *event.Value[State]
	measures *event.Value[Measures]
}

// New returns a supervisor. It starts nothing; Run does.
func New(cfg Config) *Supervisor {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Prepare == nil {
		cfg.Prepare = func() error { return nil }
	}
	return &Supervisor{
		cfg: cfg, log: cfg.Log, state: cmp.Or(cfg.State, event.New(State{})), measures: cmp.Or(cfg.Measures, event.New(Measures{})),
	}
}

// State follows the state of the member's process.
func (s *Supervisor) State() *event.Value[State] { return s.state }

// Run keeps the member running until ctx ends, and then stops it gracefully. It returns
// ctx's error then, ErrRemoved when the cluster removed the member, and ErrOldCopy when its
// log misses entries.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.cfg.Spec.Validate(); err != nil {
		return err
	}
	s.cfg.Spec.Verbose = s.log.Enabled(ctx, slog.LevelDebug)
	pauses := backoff.Backoff{First: minRestartPause, Max: maxRestartPause}
	for {
		ended := s.runChild(ctx)
		switch {
		case ended.removed:
			s.log.Warn("the cluster has removed this etcd member", "reason", ended.reason)
			return ErrRemoved
		case missesEntries(ended.reason):
			s.log.Error("etcd member cannot be used again", "reason", ended.reason)
			return ErrOldCopy
		case ctx.Err() != nil:
			s.log.Info("etcd member stopped", "reason", ended.reason)
			return ctx.Err()
		case ended.again:
			s.log.Info("etcd member starts again", "reason", ended.reason)
			s.nextPatience()
			continue
		}
		if ended.ready > worked {
			pauses.Reset()
		}
		pause := pauses.Next()
		level := slog.LevelError
		if strings.Contains(ended.reason, MembersChanged) {
			level = slog.LevelInfo
		}
		s.log.Log(ctx, level, "etcd member ended", "reason", ended.reason, "output", ended.output, "pause", pause)
		if !backoff.Sleep(ctx, pause) {
			return ctx.Err()
		}
		event.Update(s.state, func(st State) State {
			st.Restarts++
			return st
		})
	}
}

// missesEntries reports whether etcd panicked because the leader committed entries that are
// missing in this member's log, although the member acknowledged them.
func missesEntries(reason string) bool {
	return strings.Contains(reason, "tocommit(") && strings.Contains(reason, "is out of range [lastIndex(")
}

// maxPatience bounds Spec.Patience: etcd itself asks again after seven seconds.
const maxPatience = 5 * time.Second

// nextPatience makes the next child more patient, in case this one was only slow.
func (s *Supervisor) nextPatience() {
	s.cfg.Spec.Patience *= 2
	if s.cfg.Spec.Patience > maxPatience {
		s.cfg.Spec.Patience = 0
	}
}

// AwaitReady returns when the member is ready, or when ctx ends. Its error then
// names why the process ended last.
func (s *Supervisor) AwaitReady(ctx context.Context) error {
	err := event.Until(ctx, s.state, func(now State) bool { return now.Ready })
	switch last := s.state.Get().LastExit; {
	case err == nil:
		return nil
	case last == "":
		return fmt.Errorf("etcd member is not ready: %w", context.Cause(ctx))
	default:
		return fmt.Errorf("etcd member is not ready: %w; its process ended last by: %s", context.Cause(ctx), last)
	}
}

// ending is how a child ended.
type ending struct {
	reason  string // for people
	output  string // the last output of the process that was no log line; empty: none
	removed bool
	again   bool          // it wants to be started again
	ready   time.Duration // how long it was ready
}

// runChild starts one child and returns when it ends. When ctx ends it stops the
// child.
func (s *Supervisor) runChild(ctx context.Context) ending {
	var c *process
	err := s.cfg.Prepare()
	if err == nil {
		c, err = startChild(ctx, s.cfg, s.receive)
	}
	if err != nil {
		s.ended(err.Error())
		return ending{reason: err.Error()}
	}
	event.Update(s.state, func(st State) State {
		st.Running, st.Ready, st.PID, st.Since = true, false, c.PID(), time.Now()
		return st
	})
	s.log.Info("etcd member started", "pid", c.PID())
	c.finish(ctx)
	out := c.ending()
	if now := s.state.Get(); now.Ready {
		out.ready = time.Since(now.Since)
	}
	if !out.again {
		s.ended(out.reason)
	}
	return out
}

func (s *Supervisor) ended(reason string) {
	event.Update(s.state, func(st State) State {
		st.Running, st.Ready, st.PID, st.LastExit, st.Since = false, false, 0, reason, time.Now()
		return st
	})
}

// receive records a message of the child.
func (s *Supervisor) receive(m Message) {
	if m.Event == Measured {
		if m.Measures != nil {
			s.measures.Set(*m.Measures)
		}
		return
	}
	event.Update(s.state, func(st State) State {
		if m.MemberID != 0 {
			st.MemberID, st.ClusterID = m.MemberID, m.ClusterID
		}
		if m.Event == Ready {
			st.Ready, st.Since = true, time.Now()
		}
		return st
	})
	if m.Event == Ready {
		s.log.Info("etcd member ready", "member", fmt.Sprintf("%x", m.MemberID), "cluster", fmt.Sprintf("%x", m.ClusterID))
	}
}

var errEmptyCommand = errors.New("start the etcd member: the command is empty")

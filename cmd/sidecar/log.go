package main

import (
	"io"
	"log/slog"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// logOptions are the level and the format of the log.
type logOptions struct{ level, format console.Choice }

func defaultLogOptions() logOptions {
	return logOptions{
		level:  console.Choice{Value: "info", Of: []string{"debug", "info", "warn", "error"}},
		format: console.NewChoice("text", "json"),
	}
}

func (l logOptions) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level.Value)); err != nil {
		return nil, console.Usagef("--log-level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.format.Value == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}

package runflags

import (
	"io"
	"log/slog"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// Log are the level and the format of the log.
type Log struct{ Level, Format console.Choice }

// Logger returns the logger that the flags ask for.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level.Value)); err != nil {
		return nil, console.Usagef("--log-level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if l.Format.Value == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}

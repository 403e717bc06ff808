package console

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// EnvPrefix begins the name of each variable of a flag.
const EnvPrefix = "LOCKSTEP_"

// EnvName is the environment variable of a flag.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Momentary reports whether a flag can be set by no variable, since it is about one call.
func Momentary(flag string) bool {
	switch flag {
	case "help", "output", "watch", "confirm-stopped", "from", "id", "ttl", "uses", "skip-files", "yes", "force", "for", "message",
		"status-only", "check", "version", "node", "address":
		return true
	}
	return false
}

// ApplyEnv sets each flag that is missing from the command line from its variable.
// An empty variable counts as none.
func (p Program) ApplyEnv(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || Momentary(f.Name) || first != nil {
			return
		}
		value, found := p.LookupEnv(EnvName(f.Name))
		if !found || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = Usagef("%s: invalid value %q for --%s: %w", EnvName(f.Name), value, f.Name, setReason(err))
			return
		}
		Annotate(f, FromEnv, EnvName(f.Name))
	})
	return first
}

// FromEnv is the annotation of a flag that was set by a variable.
const FromEnv = "lockstep-from-env"

// setReason extracts the reason from pflag's error, which repeats flag and value.
func setReason(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalid.Unwrap()
	}
	return err
}

// WithVariable adds the environment variable that set a flag, if one did. A nil flag: no flag is called so.
func WithVariable(f *pflag.Flag, err error) error {
	if f == nil || f.Annotations[FromEnv] == nil {
		return err
	}
	return fmt.Errorf("%w (set by %s)", err, f.Annotations[FromEnv][0])
}

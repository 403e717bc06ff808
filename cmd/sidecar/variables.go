package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// envPrefix begins the name of each variable of a flag.
const envPrefix = "LOCKSTEP_"

// envName is the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// momentary reports whether a flag can be set by no variable, since it is about one call.
func momentary(flag string) bool {
	switch flag {
	case "help", "output", "watch", "confirm-stopped", "from", "id", "ttl", "uses", "skip-files", "yes", "force", "for", "message",
		"status-only", "check", "version", "node", "address":
		return true
	}
	return false
}

// applyEnv sets each flag that is missing from the command line from its variable.
// An empty variable counts as none.
func (p base) applyEnv(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || momentary(f.Name) || first != nil {
			return
		}
		value, found := p.lookupEnv(envName(f.Name))
		if !found || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = usagef("%s: invalid value %q for --%s: %w", envName(f.Name), value, f.Name, setReason(err))
			return
		}
		annotate(f, fromEnv, envName(f.Name))
	})
	return first
}

// fromEnv is the annotation of a flag that was set by a variable.
const fromEnv = "lockstep-from-env"

// setReason extracts the reason from pflag's error, which repeats flag and value.
func setReason(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalid.Unwrap()
	}
	return err
}

// withVariable adds the environment variable that set a flag, if one did. A nil flag: no flag is called so.
func withVariable(f *pflag.Flag, err error) error {
	if f == nil || f.Annotations[fromEnv] == nil {
		return err
	}
	return fmt.Errorf("%w (set by %s)", err, f.Annotations[fromEnv][0])
}

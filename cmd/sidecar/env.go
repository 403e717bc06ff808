package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// strayVariables reports each variable LOCKSTEP_... that belongs to no flag of any command: most likely it is
// misspelled, and the sidecar would start without it. That is an error for run, and for a command that has a flag with
// such a name. Another command does the same with and without the variable, so it only warns, and only of a name
// that is similar to a known one. Empty variables count as none.
func (p program) strayVariables(cmd *cobra.Command) error {
	if p.environ == nil || cmd.Hidden {
		return nil
	}
	own, all := variablesOf(cmd), allVariables(cmd.Root())
	var out []error
	for _, entry := range slices.Sorted(slices.Values(p.environ())) {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !strings.HasPrefix(name, console.EnvPrefix) || all[name] || ofKubelet(name, value) {
			continue
		}
		near, similar := similarVariable(name, own)
		refused := similar || cmd.Name() == "run"
		if other, found := similarVariable(name, all); found && !similar {
			near, similar = other, true
		}
		flag := cmd.Flags().Lookup(flagOfEnv(name))
		switch {
		case flag != nil && flag.Name != "help" || cmd.Name() == "run" && console.Momentary(flagOfEnv(name)):
			out = append(out, console.Usagef("%s: --%s has no variable; type the flag", name, flagOfEnv(name)))
		case similar && refused:
			out = append(out, console.Usagef("%s: no flag has this variable; did you mean %s?", name, near))
		case similar:
			fmt.Fprintf(p.Stderr, "warning: %s: no flag has this variable; did you mean %s?\n", name, near)
		case refused:
			out = append(out, console.Usagef("%s: no flag has this variable; unset it, since all that begin with %s belong to the sidecar: see sidecar run --help", name, console.EnvPrefix))
		}
	}
	return errors.Join(out...)
}

// similarVariable returns the variable whose name differs least, and whether it may be meant.
func similarVariable(name string, known map[string]bool) (near string, similar bool) {
	near, distance := console.Nearest(name, slices.Sorted(maps.Keys(known)))
	letters := len(name) - len(console.EnvPrefix)
	limit := max(console.MaxTypos, letters/3)
	if letters <= 2*console.MaxTypos { // most of its letters would be others
		limit = 1
	}
	return near, near != "" && distance <= limit
}

// flagOfEnv is the flag whose variable has this name.
func flagOfEnv(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, console.EnvPrefix), "_", "-"))
}

// variablesOf returns the variables of a command's flags.
func variablesOf(cmd *cobra.Command) map[string]bool {
	out := map[string]bool{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !console.Momentary(f.Name) {
			out[console.EnvName(f.Name)] = true
		}
	})
	return out
}

// allVariables returns the variables of all commands, so that one environment serves all of them, and the
// variables without a flag.
func allVariables(root *cobra.Command) map[string]bool {
	out := variablesOf(root)
	out[graceVariable] = true
	for _, name := range testVariables {
		out[name] = true
	}
	for _, cmd := range root.Commands() {
		maps.Copy(out, allVariables(cmd))
	}
	return out
}

// serviceVariable matches the variables that a kubelet sets in each container for a Service whose name begins with
// "lockstep-".
var serviceVariable = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// ofKubelet reports whether a kubelet set a variable, for a Service in the namespace of the pod:
// LOCKSTEP_SERVICE_HOST, LOCKSTEP_PORT=tcp://10.0.0.1:443 and their like.
func ofKubelet(name, value string) bool {
	of := strings.TrimPrefix(name, console.EnvPrefix)
	return of == "SERVICE_HOST" || of == "SERVICE_PORT" || strings.HasPrefix(of, "SERVICE_PORT_") ||
		of == "PORT" || strings.HasPrefix(of, "PORT_") || serviceVariable.MatchString(name) ||
		strings.HasSuffix(of, "_PORT") && strings.Contains(value, "://")
}

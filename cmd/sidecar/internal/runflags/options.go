package runflags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// checkOptions combines all problems of the flags into one usage error: invalid, which the validation of
// lockstep.Options returned, and values that were emptied. Each names its flag, and the variable that set it.
func checkOptions(flags *pflag.FlagSet, invalid error) error {
	all := emptied(flags)
	for _, err := range Split(invalid) {
		option, ok := errors.AsType[*lockstep.OptionError](err)
		if !ok {
			all = append(all, err)
			continue
		}
		all = append(all, console.WithVariable(flags.Lookup(option.Flag), ByFlag(err)))
	}
	if len(all) == 0 {
		return nil
	}
	return console.Usagef("%w", errors.Join(all...))
}

// joined is the interface of an error of errors.Join.
type joined interface {
	error
	Unwrap() []error
}

// Split returns the errors that were joined.
func Split(err error) []error {
	if several, ok := errors.AsType[joined](err); ok {
		return several.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// ByFlag names an option by its flag alone: a command line contains no fields.
func ByFlag(err error) error {
	if option, ok := errors.AsType[*lockstep.OptionError](err); ok {
		return fmt.Errorf("--%s: %s", option.Flag, option.Problem)
	}
	return err
}

// zeroAllowed is the annotation of a flag with a default that may be 0.
const zeroAllowed = "lockstep.dev/zero-allowed"

// AllowZero allows 0 for a flag.
func AllowZero(flags *pflag.FlagSet, name string) {
	if err := flags.SetAnnotation(name, zeroAllowed, []string{"true"}); err != nil {
		panic(err) // the flag does not exist: a mistake in the program
	}
}

// emptied returns an error for each flag with a default that was set to nothing, unless that means something. A
// program leaves a field of lockstep.Options zero to get the default; on a command line, an empty value is more
// likely a mistake of a script.
func emptied(flags *pflag.FlagSet) []error {
	var out []error
	flags.VisitAll(func(f *pflag.Flag) {
		nothing := map[string]string{"": "empty", "[]": "empty", "0": "0", "0s": "0"}
		what, isNothing := nothing[f.Value.String()]
		if _, byDefault := nothing[f.DefValue]; isNothing && !byDefault && f.Annotations[zeroAllowed] == nil {
			err := fmt.Errorf("--%s: must not be %s; the default is %s", f.Name, what, strings.Trim(f.DefValue, "[]"))
			out = append(out, console.WithVariable(f, err))
		}
	})
	return out
}

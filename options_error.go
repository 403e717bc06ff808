package lockstep

import "fmt"

// OptionError is the problem of one field of Options.
type OptionError struct {
	Field   string // its name in Options, like "LeaseTTL"
	Flag    string // its flag of `sidecar run`, like "lease-ttl"
	Problem string // the problem, and the remedy
}

// Error names the field and the flag.
func (e *OptionError) Error() string {
	return fmt.Sprintf("Options.%s (--%s): %s", e.Field, e.Flag, e.Problem)
}

// problems collects the problems of options.
type problems []error

func (p *problems) add(field, flag, format string, args ...any) {
	*p = append(*p, &OptionError{Field: field, Flag: flag, Problem: fmt.Sprintf(format, args...)})
}

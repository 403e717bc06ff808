package lockstep

import "fmt"

// OptionError is what is wrong with one field of Options.
type OptionError struct {
	Field   string // its name in Options, like "LeaseTTL"
	Flag    string // its flag of `sidecar run`, like "lease-ttl"
	Problem string // what is wrong, and what to set instead
}

// Error names the field and the flag.
func (e *OptionError) Error() string {
	return fmt.Sprintf("Options.%s (--%s): %s", e.Field, e.Flag, e.Problem)
}

// problems collects what is wrong with options.
type problems []error

func (p *problems) add(field, flag, format string, args ...any) {
	*p = append(*p, &OptionError{Field: field, Flag: flag, Problem: fmt.Sprintf(format, args...)})
}

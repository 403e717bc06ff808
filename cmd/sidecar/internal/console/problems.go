package console

import (
	"errors"
	"fmt"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/strict"
)

// ProblemsIn prints one line for each problem of what is in a directory, as compilers do, so that editors
// and pipelines find the place.
func (p Program) ProblemsIn(what, dir string, err error) error {
	load, ok := errors.AsType[*strict.LoadError](err)
	if !ok {
		return err
	}
	for _, problem := range load.Problems {
		fmt.Fprintln(p.Stdout, terminal.Clean(problem.Error()))
	}
	return fmt.Errorf("%s %q: %s", what, dir, terminal.Count(len(load.Problems), "problem"))
}

// Command mutants breaks production code on purpose, one small change at a time, and
// runs the test that must fail then. A change that no test notices survives: the
// tests have a gap.
//
// Each file in patches/ is one change: a patch in git's form, after a header with
// these lines.
//
//	Breaks: the behavior that the change breaks, in a sentence
//	Test: ./package TestName   (may be repeated: one of them must fail)
//
// To add one: change the code, run git diff -U1, put these lines above its output, and restore the code.
//
// The command copies the files of a patch to a temporary directory, applies the
// patch there, and passes the copies to go test with -overlay, and to the builds of
// the programs that tests run. So the working tree stays as it is, and the build cache
// stays warm. All tests run without a patch first: one that fails anyway notices nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"
)

func main() {
	only := flag.String("run", "", "regular `expression`: only the mutants whose names match")
	verbose := flag.Bool("v", false, "show the output of each test")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, verbose bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	all, err := load(root)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !pattern.MatchString(m.Name) })
	if err := baseline(ctx, root, all); err != nil {
		return err
	}
	counts := map[outcome]int{}
	for _, m := range all {
		began := time.Now()
		result, output, err := m.try(ctx, root)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		counts[result]++
		fmt.Printf("%-9s %-44s %5.1fs  %s\n", result, m.Name, time.Since(began).Seconds(), m.Breaks)
		if verbose || result != killed {
			fmt.Println(output)
		}
	}
	fmt.Printf("%d killed, %d survived, %d could not be tried\n", counts[killed], counts[survived], counts[invalid])
	if counts[survived]+counts[invalid] > 0 {
		return fmt.Errorf("%d of %d mutants were not killed", counts[survived]+counts[invalid], len(all))
	}
	return nil
}

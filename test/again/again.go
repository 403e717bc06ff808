// Package again runs a test again as a process of its own: for a test that needs other
// namespaces of the kernel than its first process.
package again

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// variable names the test that runs again.
const variable = "LOCKSTEP_TEST_AGAIN"

// skipped is the exit code of a process that called Skip.
const skipped = 77

// Inside reports whether Run started this process for this test, or for the test of which it
// is a part.
func Inside(t *testing.T) bool {
	t.Helper()
	whole, _, _ := strings.Cut(t.Name(), "/")
	return os.Getenv(variable) == whole
}

// Skip ends a process that Run started. The test is skipped then, with this reason.
func Skip(t *testing.T, reason string) {
	t.Helper()
	if !Inside(t) {
		t.Fatal("this is not the process of the test that runs again")
	}
	fmt.Println(t.Name() + ": " + reason)
	os.Exit(skipped)
}

// Run runs the test that calls it again, and passes its result on. attr contains the special
// attributes of the process. wrapper is a program with its arguments that becomes the
// process; empty: none. An error means that the process could not be started.
func Run(t *testing.T, attr syscall.SysProcAttr, wrapper ...string) error {
	t.Helper()
	line := append(slices.Clone(wrapper), os.Args[0], "-test.run=^"+t.Name()+"$")
	line = append(line, flagsAgain()...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &attr
	dieWithParent(cmd.SysProcAttr)
	// The kernel ends the child with the thread that started it, not with the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	err := cmd.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() == skipped {
		t.Skip("SKIPPED, NOT TESTED: see the line above")
	}
	if err != nil {
		t.Errorf("the test in a process of its own: %v", err)
	}
	return nil
}

// flagsAgain returns the flags of this process, except those that are not for the second one:
// it runs one test once, and would overwrite the files of the first one.
func flagsAgain() []string {
	var out []string
	flag.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"test.run", "test.count", "test.testlogfile", "test.gocoverdir", "test.trace"}, f.Name) ||
			strings.HasPrefix(f.Name, "test.cover") || strings.HasPrefix(f.Name, "test.fuzz") || strings.HasSuffix(f.Name, "profile") {
			return
		}
		out = append(out, "-"+f.Name+"="+f.Value.String())
	})
	return out
}

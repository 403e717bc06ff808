package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/trace"
)

// traceVariable names the directory in which a sidecar of BuildTracing writes its
// trace.
const traceVariable = "LOCKSTEP_TRACE"

// BuildTracing builds a sidecar that writes the actions of its shells into a file.
func BuildTracing(t testing.TB) string {
	t.Helper()
	return build(t, "trace/sidecar", "-tags=lockstep_trace", "github.com/lockstep-dev/lockstep/cmd/sidecar")
}

// BuildSteps builds a sidecar that ends with SIGKILL after the step that
// LOCKSTEP_EXIT_AFTER_STEP names, like create/marker, and stops gracefully after the step in
// LOCKSTEP_STOP_AFTER_STEP. On Linux with amd64, TEST_CLOCK_SHIFT shifts its clock.
func BuildSteps(t testing.TB) string {
	t.Helper()
	return build(t, "steps/sidecar", "-tags=lockstep_steps", "github.com/lockstep-dev/lockstep/cmd/sidecar")
}

// sidecarProgram returns the program of sidecars, and their environment.
func (c *Cluster) sidecarProgram(shipped string, env []string) (string, []string) {
	if c.cfg.TraceDir != "" {
		env = append(slices.Clone(env), traceVariable+"="+c.cfg.TraceDir)
	}
	return cmp.Or(c.cfg.SidecarBinary, shipped), env
}

// SidecarBinary returns the path of the sidecars' program, for its commands.
func (c *Cluster) SidecarBinary() string {
	return cmp.Or(c.cfg.SidecarBinary, filepath.Join(c.cfg.Assets, "sidecar"))
}

// ValidateTraces checks the traces of all sidecars, each of which wrote a file. The
// counts are of all of them.
func ValidateTraces(dir string) (trace.Counts, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("read the traces in %s: there are none: %w", dir, err)
	}
	counts, errs := trace.Counts{}, []error{}
	for _, file := range files {
		some, err := validateTrace(file)
		for kind, n := range some {
			counts[kind] += n
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", filepath.Base(file), err))
		}
	}
	return counts, errors.Join(errs...)
}

func validateTrace(file string) (trace.Counts, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	recording, err := trace.ReadRecording(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return trace.Validate(trace.Events(recording))
}

// TraceSummary is a line about traces.
func TraceSummary(counts trace.Counts) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return "traces: " + strings.Join(out, ", ")
}

// validateTraces checks the traces of a test at its end. A trace is a recording as well: the command for recordings
// reads the longest one, and comes to the same result. If the test failed, its traces tell why.
func validateTraces(t testing.TB, dir, program string) {
	counts, err := ValidateTraces(dir)
	t.Log(TraceSummary(counts))
	if err != nil {
		t.Errorf("a trace is not one that the protocol allows: %v", err)
	}
	for _, kind := range []string{"elected", "round", "begin", "end", "write", "gate", "wrote", "checked", "published"} {
		if counts[kind] == 0 {
			t.Errorf("no trace has an event %q", kind)
		}
	}
	out, replayErr := ReplayLongest(dir, program)
	t.Log(out)
	if replayErr != nil && err == nil {
		t.Error(replayErr)
	}
	if t.Failed() {
		t.Logf("each step of each sidecar is in %s, for sidecar replay -o wide FILE", dir)
	}
}

// ReplayLongest lets the command for recordings read the longest trace, and returns what it prints.
func ReplayLongest(dir, program string) (out string, err error) {
	longest := longestTrace(dir)
	text, err := exec.Command(program, "replay", longest).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("sidecar replay %s: %w", longest, err)
	}
	return fmt.Sprintf("$ sidecar replay %s\n%s", filepath.Base(longest), text), err
}

func longestTrace(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
	longest, most := "", int64(-1)
	for _, file := range files {
		if info, statErr := os.Stat(file); err == nil && statErr == nil && info.Size() > most {
			longest, most = file, info.Size()
		}
	}
	return longest
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one patch.
type mutant struct {
	Name   string   // of its file, without the extension
	Breaks string   // the behavior that it breaks
	Tests  []target // of which one must fail
	Patch  string   // without the header
	Files  []string // that the patch changes, relative to the root
}

// target is a test in a package.
type target struct{ Package, Test string }

// outcome is the result of a mutant.
type outcome string

const (
	killed   outcome = "killed"   // a test failed
	survived outcome = "SURVIVED" // all its tests passed
	invalid  outcome = "INVALID"  // it does not compile, or a test did not run
)

const patchDir = "test/mutants/patches"

// moduleRoot returns the directory of the main module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// load reads all patches, in the order of their names.
func load(root string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, patchDir, "*.patch"))
	if err != nil {
		return nil, err
	}
	out := make([]mutant, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		m.Name = strings.TrimSuffix(filepath.Base(file), ".patch")
		out = append(out, m)
	}
	return out, nil
}

// parse reads a header and a patch.
func parse(text string) (mutant, error) {
	header, patch, found := strings.Cut(text, "\n---")
	if !found {
		return mutant{}, errors.New("no line begins with ---")
	}
	m := mutant{Patch: "---" + patch}
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "Breaks":
			m.Breaks = value
		case "Test":
			pkg, test, found := strings.Cut(value, " ")
			if !found {
				return mutant{}, fmt.Errorf("%q: want Test: ./package TestName", line)
			}
			m.Tests = append(m.Tests, target{pkg, test})
		default:
			return mutant{}, fmt.Errorf("%q: the header has Breaks and Test only", line)
		}
	}
	for line := range strings.Lines(m.Patch) {
		if file, isTarget := strings.CutPrefix(line, "+++ b/"); isTarget {
			m.Files = append(m.Files, strings.TrimSpace(file))
		}
	}
	if m.Breaks == "" || len(m.Tests) == 0 || len(m.Files) == 0 {
		return mutant{}, errors.New("the header needs Breaks and Test, and the patch a file")
	}
	return m, nil
}

// apply writes the changed files below dir.
func (m mutant) apply(ctx context.Context, root, dir string) error {
	for _, file := range m.Files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		changed := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(changed), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(changed, content, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "git", "apply", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(m.Patch)
	// Not the repository around dir, if there is one: git would apply the patch at that
	// repository's root.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch does not apply any more; make it again: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// try runs the tests of the mutant until one fails.
func (m mutant) try(ctx context.Context, root string) (result outcome, output string, err error) {
	dir, err := os.MkdirTemp("", "lockstep-mutant-")
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := m.apply(ctx, root, dir); err != nil {
		return invalid, err.Error(), nil
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := m.writeOverlay(root, dir, overlay); err != nil {
		return "", "", err
	}
	var all strings.Builder
	for pkg, tests := range byPackage(m.Tests) {
		result, output := runTests(ctx, root, overlay, pkg, tests)
		if ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		if result != survived {
			return result, output, nil
		}
		all.WriteString(output)
	}
	return survived, all.String(), nil
}

func (m mutant) writeOverlay(root, dir, overlay string) error {
	replace := map[string]string{}
	for _, file := range m.Files {
		replace[filepath.Join(root, file)] = filepath.Join(dir, file)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(overlay, text, 0o600)
}

// byPackage returns the names of the tests of each package, in a fixed order.
func byPackage(tests []target) func(yield func(string, []string) bool) {
	names := map[string][]string{}
	for _, t := range tests {
		names[t.Package] = append(names[t.Package], t.Test)
	}
	return func(yield func(string, []string) bool) {
		for _, pkg := range slices.Sorted(maps.Keys(names)) {
			if !yield(pkg, names[pkg]) {
				return
			}
		}
	}
}

// baseline returns an error if a test of the mutants fails without any patch.
func baseline(ctx context.Context, root string, mutants []mutant) error {
	var all []target
	for _, m := range mutants {
		for _, t := range m.Tests {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	for pkg, tests := range byPackage(all) {
		result, output := runTests(ctx, root, "", pkg, tests)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result != survived {
			return fmt.Errorf("%s fails without any mutant:\n%s", pkg, output)
		}
	}
	return nil
}

// runTests runs tests of one package with the overlay; empty: without one. The tests of
// whole clusters run programs: the ones that they build themselves contain the overlay too,
// and the sidecar is built for them.
func runTests(ctx context.Context, root, overlay, pkg string, tests []string) (outcome, string) {
	env := append(os.Environ(), "CGO_ENABLED=0") // as the other tests: each package is compiled once
	if overlay != "" {
		env = append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	if strings.HasPrefix(pkg, "./test/") {
		assets, err := buildAssets(ctx, root, env)
		defer func() { _ = os.RemoveAll(assets) }() // it is temporary
		if err != nil {
			return invalid, err.Error()
		}
		env = append(env, assetsVariable+"="+assets)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-vet=off", "-count=1", "-failfast", "-timeout=5m", "-v",
		"-run", "^("+strings.Join(tests, "|")+")$", pkg)
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	return judge(string(out), err != nil), string(out)
}

const assetsVariable = "LOCKSTEP_E2E_ASSETS"

// contain are the programs and directories of the binaries that contain the production code. Tests build the ones that
// are missing with the overlay.
var contain = []string{"sidecar", "steps", "trace"}

// buildAssets returns a directory with the programs of the tests, and a sidecar that is built
// with the overlay of env. The caller deletes it.
func buildAssets(ctx context.Context, root string, env []string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "lockstep-mutant-"); err != nil {
		return "", err
	}
	programs, err := filepath.Glob(filepath.Join(os.Getenv(assetsVariable), "*"))
	if err != nil {
		return dir, err
	}
	for _, program := range programs {
		if name := filepath.Base(program); !slices.Contains(contain, name) {
			err = errors.Join(err, os.Symlink(program, filepath.Join(dir, name)))
		}
	}
	if err != nil {
		return dir, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, "sidecar"), "./cmd/sidecar")
	cmd.Dir, cmd.Env = root, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the sidecar: %w: %s", err, out)
	}
	return dir, nil
}

// judge reads the output of go test -v. A test that hangs until the time limit failed,
// too.
func judge(output string, failed bool) outcome {
	ran := strings.Contains(output, "=== RUN ")
	skipped := strings.Contains(output, "--- SKIP: ")
	switch {
	case !ran || skipped: // it does not compile, there is no such test, or a binary is missing
		return invalid
	case failed:
		return killed
	}
	return survived
}

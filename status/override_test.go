package status

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

func TestReadOverride(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	in := protocol.Override{Until: now.Add(time.Hour).UTC().Truncate(time.Second), Message: "why"}
	over := protocol.Override{Until: now.Add(time.Minute).UTC()}
	for name, test := range map[string]struct {
		text    string
		mode    os.FileMode
		age     time.Duration
		want    protocol.Override
		problem string
	}{
		"in force":            {text: EncodeOverride(in), mode: 0o644, want: in},
		"over":                {text: EncodeOverride(over), mode: 0o644, age: -2 * time.Minute},
		"others may write it": {text: EncodeOverride(in), mode: 0o646, problem: "can be changed by every user (mode 0646)"},
		"garbage":             {text: "for ever", mode: 0o600, problem: "its first line must be"},
		"too long ago":        {text: EncodeOverride(in), mode: 0o600, age: 24 * time.Hour, problem: "longer than 24h"},
		"a directory":         {mode: os.ModeDir | 0o755, problem: "must be a file"},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if test.mode.IsDir() {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		at := now
		if test.age < 0 {
			at = now.Add(-test.age)
		} else if err := os.Chtimes(file, now.Add(-test.age), now.Add(-test.age)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, test.mode.Perm()); err != nil {
			t.Fatal(err)
		}
		got, problem := new(overrideFile).read(file, at)
		if got != test.want || (problem == "") != (test.problem == "") || !strings.Contains(problem, test.problem) {
			t.Errorf("%s: got %+v, %q", name, got, problem)
		}
	}
	for _, file := range []string{"", filepath.Join(dir, "missing")} {
		if got, problem := new(overrideFile).read(file, now); got.On() || problem != "" {
			t.Errorf("%q: got %+v, %q", file, got, problem)
		}
	}
}

// An override that was read stays in force while its file cannot be read, until its end.
// A file that was deleted or became invalid ends it.
func TestReadOverride_unreadable(t *testing.T) {
	dir := t.TempDir()
	file, now := filepath.Join(dir, "override"), time.Now()
	in := protocol.Override{Until: now.Add(time.Hour).UTC().Truncate(time.Second), Message: "why"}
	unreadable := func() error { return os.Symlink(file, file) } // ELOOP, also for root
	for name, test := range map[string]struct {
		then func() error
		at   time.Time
		want protocol.Override
		says string
	}{
		"unreadable":                {unreadable, now.Add(time.Minute), in, "stays in force"},
		"unreadable, after its end": {unreadable, now.Add(2 * time.Hour), protocol.Override{}, "has no effect"},
		"deleted":                   {func() error { return nil }, now.Add(time.Minute), protocol.Override{}, ""},
		"garbage":                   {func() error { return os.WriteFile(file, []byte("x"), 0o600) }, now.Add(time.Minute), protocol.Override{}, "has no effect"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(EncodeOverride(in)), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(file) })
			var last overrideFile
			if got, problem := last.read(file, now.Add(time.Second)); got != in || problem != "" {
				t.Fatalf("got %+v, %q", got, problem)
			}
			if err := errors.Join(os.Remove(file), test.then()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got, problem := last.read(file, test.at)
				if got != test.want || !strings.Contains(problem, test.says) || (problem == "") != (test.says == "") {
					t.Errorf("got %+v, %q", got, problem)
				}
			}
		})
	}
}

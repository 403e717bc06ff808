package member

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/child"
)

func readLines(t *testing.T, level slog.Level, lines ...string) (*logReader, string) {
	t.Helper()
	var out bytes.Buffer
	r := newLogReader(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
	for _, line := range lines {
		r.read(t.Context(), line)
	}
	return r, out.String()
}

// etcd's log becomes ours, with our names of levels and fields.
func TestLogReader(t *testing.T) {
	lines := []string{
		`{"level":"info","ts":1.5,"caller":"embed/etcd.go:1","msg":"opened","data-dir":"/d"}`,
		`{"level":"warn","ts":1.5,"msg":"slow","took":"1s","expected-duration":"100ms"}`,
		`{"level":"error","msg":"bad","error":"why"}`,
	}
	_, out := readLines(t, slog.LevelDebug, lines...)
	for _, want := range []string{
		`level=DEBUG msg=opened caller=embed/etcd.go:1 dataDir=/d`, `level=WARN msg=slow expectedDuration=100ms took=1s`, `level=ERROR msg=bad err=why`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %s", out, want)
		}
	}
	if _, out := readLines(t, slog.LevelInfo, lines...); strings.Contains(out, "opened") || !strings.Contains(out, "slow") {
		t.Errorf("got %s", out)
	}
}

// A warning that repeats does not flood the log.
func TestLogReader_repeats(t *testing.T) {
	_, out := readLines(t, slog.LevelInfo, slices.Repeat([]string{`{"level":"warn","msg":"peer is down"}`}, 100)...)
	if n := strings.Count(out, "peer is down"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// What etcd warns of while it is stopped is intended.
func TestLogReader_stopping(t *testing.T) {
	var out bytes.Buffer
	r := newLogReader(slog.New(slog.NewTextHandler(&out, nil)))
	r.stop()
	r.read(t.Context(), `{"level":"error","msg":"listener closed"}`)
	if out.Len() > 0 {
		t.Errorf("got %s", out.String())
	}
}

func TestLogReader_reason(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"none":               {[]string{`{"level":"error","msg":"x"}`, "noise"}, ""},
		"fatal":              {[]string{`{"level":"fatal","msg":"failed to commit tx","error":"no space left on device"}`}, "failed to commit tx: no space left on device"},
		"etcd's panic":       {[]string{`{"level":"panic","msg":"tocommit out of range"}`, "panic: tocommit out of range", "goroutine 1 [running]:"}, "tocommit out of range"},
		"the runtime's":      {[]string{"fatal error: runtime: out of memory", "", "goroutine 1 [running]:"}, "fatal error: runtime: out of memory"},
		"a panic":            {[]string{"panic: runtime error: index out of range [1]"}, "panic: runtime error: index out of range [1]"},
		"JSON, but no entry": {[]string{`3`, `{}`}, ""},
	} {
		if r, _ := readLines(t, slog.LevelInfo, c.lines...); r.reason() != c.want {
			t.Errorf("%s: got %q, want %q", name, r.reason(), c.want)
		}
	}
}

// Of a long stack the beginning is kept.
func TestLogReader_output(t *testing.T) {
	r, _ := readLines(t, slog.LevelInfo, append([]string{"panic: x"}, slices.Repeat([]string{"frame"}, 1000)...)...)
	if got := strings.Split(r.output(), "\n"); len(got) != maxOutput || got[0] != "panic: x" {
		t.Errorf("got %d lines, %q first", len(got), got[0])
	}
}

// etcd gets neither secrets nor a proxy to its peers.
func TestIsProxy(t *testing.T) {
	got := child.Environ([]string{"PATH=/bin", "LOCKSTEP_TOKEN=secret", "HTTPS_PROXY=http://p", "http_proxy=http://p", "NO_PROXY=x", "GOMEMLIMIT=1"}, isProxy)
	if want := []string{"PATH=/bin", "GOMEMLIMIT=1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

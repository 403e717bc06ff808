package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// TestWarnOfToken: a token on the command line is warned of, and one of the environment is
// not.
func TestWarnOfToken(t *testing.T) {
	for _, tt := range []struct {
		args []string
		env  string
		want bool
	}{
		{args: []string{"--token=secret"}, want: true},
		{env: "secret"},
		{args: []string{"--token-file=/etc/lockstep/token"}},
	} {
		p := program{Program: console.Program{LookupEnv: func(name string) (string, bool) { return tt.env, tt.env != "" && name == "LOCKSTEP_TOKEN" }}}
		flags := mustFind(t, p.root(), "run").Flags()
		if err := flags.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		if err := p.ApplyEnv(flags); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		warnOfToken(slog.New(slog.NewTextHandler(&log, nil)), flags)
		shown := strings.Contains(log.String(), "which ps shows") && strings.Contains(log.String(), "LOCKSTEP_TOKEN")
		if shown != tt.want || strings.Contains(log.String(), "secret") {
			t.Errorf("%v, %q: got %q", tt.args, tt.env, log.String())
		}
	}
}

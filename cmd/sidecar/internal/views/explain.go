package views

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// explainFlags are the flags of explain.
type explainFlags struct{ node, at, recording string }

// explainCommand is sidecar explain.
func (p program) explainCommand() *cobra.Command {
	var f explainFlags
	var asked history.Asked
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "explain --node ID --at TIME",
		Short: "Explain whether a node served at a time, and why not",
		Long: `Explain whether a node served at a time, and why not: all its outages of that time, or the
nearest ones; possible causes, the likeliest first; and what the history has of the minutes
around it, first of the node, then of the fleet. With --recording, also the verdicts from a
recording of the node's sidecar.

TIME is a minute, like 14:02 (today) or "2026-11-24 14:02", or a second, like 14:02:31 or
2026-11-24T14:02:31Z. It is UTC, unless it ends in another zone, as in 2026-11-24T15:02+01:00.`,
		Args: console.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) { // before etcd is asked
			asked, err = f.validate(p.Now())
			return err
		},
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		return p.explain(ctx, client, f, asked)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "The `ID` of the node. Required.")
	flags.StringVar(&f.at, "at", "", "The `time`: a minute or a second. Required.")
	flags.StringVar(&f.recording, "recording", "", "A `file` with a recording of the node's sidecar.")
	return cmd
}

// validate names all flags that are missing or wrong.
func (f explainFlags) validate(now time.Time) (asked history.Asked, err error) {
	var errs []error
	if f.node == "" {
		errs = append(errs, console.Usagef("--node: required: the ID of the node"))
	}
	if f.at == "" {
		errs = append(errs, console.Usagef("--at: required: the time, like \"2026-11-24 14:02\", or 14:02, which is today, UTC"))
	} else if asked, err = parseAt(f.at, now); err != nil {
		errs = append(errs, err)
	}
	return asked, errors.Join(errs...)
}

// atForms are the forms of a time that people type, and how much of it they mean.
var atForms = []struct {
	form  string
	means time.Duration
}{
	{time.RFC3339Nano, time.Second}, {"2006-01-02 15:04:05", time.Second}, {"2006-01-02T15:04:05", time.Second},
	{"2006-01-02T15:04Z07:00", time.Minute}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04", time.Minute},
}

// parseAt parses a time that people typed: "14:02" is all of that minute.
func parseAt(text string, now time.Time) (history.Asked, error) {
	today := now.UTC().Format("2006-01-02T")
	for _, typed := range []string{text, today + text} {
		for _, f := range atForms {
			if at, err := time.ParseInLocation(f.form, typed, time.UTC); err == nil {
				from := at.UTC().Truncate(f.means)
				return history.Asked{From: from, To: from.Add(f.means)}, nil
			}
		}
	}
	return history.Asked{}, console.Usagef("--at: %q: must be a time like 2026-11-24T14:02:31Z, \"2026-11-24 14:02\", or 14:02, which is today, UTC", text)
}

// askedText is a time as people may type it.
func askedText(asked history.Asked) string {
	if asked.To.Sub(asked.From) == time.Minute {
		return asked.From.Format("2006-01-02T15:04Z")
	}
	return clock(asked.From)
}

func (p program) explain(ctx context.Context, client reach.Etcd, f explainFlags, asked history.Asked) error {
	all, err := journal.List(ctx, client.Client)
	if err != nil {
		return err
	}
	node := protocol.NodeID(f.node)
	if err := checkKnown(ctx, client, node, all); err != nil {
		return err
	}
	e := history.Explain(all, node, asked)
	if now := p.Now(); asked.From.After(now) {
		e = history.Explanation{Verdict: "that time has not come: it is " + clock(now) + " now"}
	}
	t := p.Printer()
	says := func(indent, text string) { t.Hanging(indent, httpapi.Pasteable(text, client.Flags)) }
	says("", f.node+" at "+askedText(asked)+": "+e.Verdict)
	for _, outage := range e.Outages {
		says("  ", outage)
	}
	for _, cause := range e.Causes {
		says("  ", "possible cause "+history.Cause(cause, node))
	}
	if f.recording != "" {
		if err := explainRecording(t, f.recording, asked); err != nil {
			return err
		}
	}
	if len(e.Node) > 0 {
		t.Section("What happened on the node, around that time", historyRows(e.Node, client.Flags))
	}
	if len(e.Fleet) > 0 {
		t.Section("What happened in the fleet, around that time", historyRows(e.Fleet, client.Flags))
	}
	return nil
}

// maxRecorded bounds the recorded verdicts of a minute.
const maxRecorded = 10

// explainRecording prints the verdict and the decision at the begin of a time, and the newest ones within it.
func explainRecording(t terminal.Printer, file string, asked history.Asked) error {
	recording, err := readRecording(file)
	if err != nil {
		return err
	}
	for _, kind := range []string{"gate", "round"} {
		found := recordedIn(recording, kind, asked)
		for _, r := range found[max(0, len(found)-maxRecorded):] {
			t.Hanging("", fmt.Sprintf("recorded at %s: %s: %s", stamp(r.At), kind, reasonOf(r.Event)))
		}
	}
	return nil
}

// recordedIn returns the newest event of a kind at the begin of a time, and those within it that say something else than the one before.
func recordedIn(recording []trace.Recorded, kind string, asked history.Asked) (out []trace.Recorded) {
	for _, r := range recording {
		last := len(out) - 1
		switch {
		case r.Name() != kind || !r.At.Before(asked.To):
		case last >= 0 && !r.At.After(asked.From):
			out[last] = r
		case last < 0 || reasonOf(out[last].Event) != reasonOf(r.Event):
			out = append(out, r)
		}
	}
	return out
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/trace"
)

// explainFlags are the flags of explain.
type explainFlags struct{ node, at, recording string }

func (p program) explainCommand() *cobra.Command {
	var f explainFlags
	cmd := withEtcd(&cobra.Command{
		Use:   "explain --node ID --at TIME",
		Short: "Explain whether a node served at a time, and why not",
		Long: `Explain whether a node served at a time, and why not: what the history has of that moment
and the minutes before it, first of the node, then of the fleet. With --recording, also the
verdict and its facts from a recording of the node's sidecar.

TIME is like 2026-11-24T14:02:00Z, or 2026-11-24 14:02 or 14:02 (today), both UTC.`,
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) error { // before etcd is asked
			return f.validate(p.now())
		},
	}, func(ctx context.Context, client etcdClient, _ []string) error { return p.explain(ctx, client, f) })
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "The `ID` of the node. Required.")
	flags.StringVar(&f.at, "at", "", "The `time`. Required.")
	flags.StringVar(&f.recording, "recording", "", "A `file` with a recording of the node's sidecar.")
	return cmd
}

// validate names all flags that are missing or wrong.
func (f explainFlags) validate(now time.Time) error {
	var errs []error
	if f.node == "" {
		errs = append(errs, usagef("--node: required: the ID of the node"))
	}
	if f.at == "" {
		errs = append(errs, usagef("--at: required: the time, like 2026-11-24T14:02:00Z, or 14:02, which is today, UTC"))
	} else if _, err := parseAt(f.at, now); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parseAt parses a time that people typed.
func parseAt(text string, now time.Time) (time.Time, error) {
	now = now.UTC()
	for _, form := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04"} {
		if at, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return at, nil
		}
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if at, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC), nil
		}
	}
	return time.Time{}, usagef("--at: %q: must be a time like 2026-11-24T14:02:00Z, or 14:02, which is today, UTC", text)
}

func (p program) explain(ctx context.Context, client etcdClient, f explainFlags) error {
	at, err := parseAt(f.at, p.now())
	if err != nil {
		return err
	}
	all, err := journal.List(ctx, client.Client)
	if err != nil {
		return err
	}
	if err := checkKnown(ctx, client, protocol.NodeID(f.node), all); err != nil {
		return err
	}
	e := history.Explain(all, protocol.NodeID(f.node), at)
	fmt.Fprintf(p.stdout, "%s at %s: %s\n", f.node, clock(at), clean(e.Verdict))
	for _, cause := range e.Causes {
		fmt.Fprintf(p.stdout, "  possible cause %s\n", clean(history.Cause(cause, protocol.NodeID(f.node))))
	}
	if f.recording != "" {
		if err := p.explainRecording(f.recording, at); err != nil {
			return err
		}
	}
	t := table{w: p.stdout, now: p.now(), screen: p.screen()}
	if len(e.Node) > 0 {
		t.section("What happened on the node, around that time", historyRows(e.Node))
	}
	if len(e.Fleet) > 0 {
		t.section("What happened in the fleet, around that time", historyRows(e.Fleet))
	}
	return nil
}

// explainRecording prints the newest verdict and decision before a time.
func (p program) explainRecording(file string, at time.Time) error {
	recording, err := readRecording(file)
	if err != nil {
		return err
	}
	recording = slices.DeleteFunc(recording, func(r trace.Recorded) bool { return r.At.After(at) })
	for _, kind := range []string{"gate", "round"} {
		for _, r := range slices.Backward(recording) {
			if r.Name() == kind {
				fmt.Fprintf(p.stdout, "recorded at %s: %s: %s\n", stamp(r.At), kind, clean(reasonOf(r.Event)))
				break
			}
		}
	}
	return nil
}

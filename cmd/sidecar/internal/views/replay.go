package views

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/trace"
)

// errNotAllowed is the error of replay, which already printed the step.
var errNotAllowed = errors.New("the recording has a step that the protocol does not allow")

// replayCommand is sidecar replay.
func (p program) replayCommand() *cobra.Command {
	output := console.NewChoice("text", "wide")
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay the recording of a sidecar, and check each step",
		Long: `Replay the recording of a sidecar: each decision is made again by the functions that made
it, from the facts that were recorded, and each step must be one that the protocol allows.
The first that is not is named. -o wide lists all steps, and why each was taken.

A running sidecar gives its recording at /debug/recording.

Exit codes: 0 each step is allowed, 1 one is not, or the file cannot be read, 2 wrong usage.`,
		Args: console.OneArg("FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return p.replay(args[0], output) },
	}
	console.BindOutput(cmd, &output)
	return cmd
}

func (p program) replay(file string, output console.Choice) error {
	recording, err := readRecording(file)
	if err != nil {
		return err
	}
	checker, counts := trace.CheckerOf(trace.Events(recording)), trace.Counts{}
	for i, r := range recording {
		counts[r.Name()]++
		if output.Value == "wide" {
			fmt.Fprintf(p.Stdout, "%s  %-9s  %s\n", stamp(r.At), r.Name(), terminal.Clean(reasonOf(r.Event)))
		}
		if err := checker.Apply(r.Event); err != nil {
			fmt.Fprintf(p.Stdout, "event %d, at %s: %s: not allowed: %s\n", i, stamp(r.At), r.Name(), terminal.Clean(err.Error()))
			return fmt.Errorf("%s: %w", file, errNotAllowed)
		}
	}
	if len(recording) == 0 {
		return fmt.Errorf("%s: the recording is empty", file)
	}
	fmt.Fprintf(p.Stdout, "%s from %s to %s, each of which the protocol allows: %s of a leader, %s of the gate\n",
		terminal.Count(len(recording), "step"), stamp(recording[0].At), stamp(recording[len(recording)-1].At), terminal.Count(counts["round"], "decision"), terminal.Count(counts["gate"], "verdict"))
	return nil
}

func readRecording(file string) ([]trace.Recorded, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	recording, err := trace.ReadRecording(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return recording, errors.Join(err, f.Close())
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// reasonOf describes an event and its reason.
func reasonOf(e trace.Event) string {
	switch {
	case e.Gate != nil:
		return fmt.Sprintf("ready=%t %s: %s", e.Gate.Verdict.Ready, e.Gate.Verdict.Reason, e.Gate.Verdict.Message)
	case e.Round != nil:
		return fmt.Sprintf("%s: %s", e.Round.Step, e.Round.Step.Message)
	case e.Write != nil:
		return e.Write.Status.String()
	case e.Resign != nil:
		return e.Resign.Status.String()
	case e.Elected != nil:
		return fmt.Sprintf("epoch %d", e.Elected.Epoch)
	case e.Begin != nil:
		return fmt.Sprintf("%s %s", e.Begin.Kind, e.Begin.Work.Content)
	case e.End != nil:
		return fmt.Sprintf("%s %s, failed=%t", e.End.Kind, e.End.Work.Content, e.End.Failed)
	case e.Checked != nil:
		return fmt.Sprintf("must register again: %t", e.Checked.Must)
	case e.Published != nil:
		return fmt.Sprintf("registered at revision %d", e.Published.Registration.Revision)
	case e.Delete != nil:
		return "the expired record of " + string(e.Delete.Record.ID)
	}
	return ""
}

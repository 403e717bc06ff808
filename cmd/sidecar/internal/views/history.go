package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/reach"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/status"
)

// historyFlags are the flags of history.
type historyFlags struct {
	node, since string
	kinds       []string
}

// historyCommand is sidecar history.
func (p program) historyCommand() *cobra.Command {
	f, filter := historyFlags{since: "24h"}, history.Filter{}
	output := console.NewChoice("table", "json")
	cmd := reach.WithEtcd(&cobra.Command{
		Use:   "history",
		Short: "Show what happened: gates, leaders, upgrades, failures",
		Long: `Show what happened: when which node was out of service and why, who led, what was
upgraded, and what failed. The sidecars keep it in etcd, also for nodes whose disks are
lost. The newest is last.

Above the list are lanes, whatever --kind lists. fleet: ═ while an upgrade or a rollback
was under way, with its duration, then ─ while every node served and its objects were
not complete. status: · DONE and ~ WORKING, with version and minimum where they fit. Then
one lane for each node: █ in service, ░ out of service, L where it began to lead, T where
its turn of planned work began, F where that work failed, its release after each change,
and at the end its release now. ▒ is partly out of service: an entry that joins several
outages has no more than the newest 12 of their times.`,
		Args:    console.NoArgs,
		PreRunE: func(*cobra.Command, []string) (err error) { filter, err = f.filter(p.Now()); return err }, // before etcd is asked
	}, func(ctx context.Context, client reach.Etcd, _ []string) error {
		return p.printHistory(ctx, client, filter, f.kinds, output)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "Only entries about the node with this `ID`.")
	flags.StringVar(&f.since, "since", f.since, "How far back, as a `duration` like 90m, 12h or 2d.")
	flags.StringSliceVar(&f.kinds, "kind", nil, "Only entries of this `kind`: "+kindNames()+". Can be repeated.")
	console.BindOutput(cmd, &output)
	return cmd
}

func kindNames() string {
	var out []string
	for _, k := range history.Kinds() {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// filter returns an error that names the flag.
func (f historyFlags) filter(now time.Time) (history.Filter, error) {
	for _, kind := range f.kinds {
		if _, err := httpapi.ParseKind(kind); err != nil {
			return history.Filter{}, console.Usagef("--kind: %w", err)
		}
	}
	since, err := httpapi.ParseSince(f.since)
	if err != nil {
		return history.Filter{}, console.Usagef("--since: %w", err)
	}
	return history.Filter{Node: protocol.NodeID(f.node), Since: now.Add(-since)}, nil
}

// ofKinds returns the entries of the kinds that people want to see; none given: all.
func ofKinds(entries []history.Entry, kinds []string) []history.Entry {
	wanted := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == "" })
	if len(wanted) == 0 {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e history.Entry) bool { return !slices.Contains(wanted, string(e.Kind)) })
}

func (p program) printHistory(ctx context.Context, client reach.Etcd, filter history.Filter, kinds []string, output console.Choice) error {
	all, err := journal.List(ctx, client.Client)
	if err != nil {
		return err
	}
	if err := checkKnown(ctx, client, filter.Node, all); err != nil {
		return err
	}
	entries := ofKinds(filter.Filtered(all), kinds)
	if output.Value == "json" {
		return p.PrintJSON(httpapi.NewEntries(entries))
	}
	picture, err := drawnOf(ctx, client.Client, all)
	if err != nil {
		return err
	}
	picture.Node, picture.From, picture.To = filter.Node, firstOf(entries, filter.Since), p.Now()
	historyTable{p.Printer()}.write(picture, historyRows(entries, client.Flags))
	return nil
}

// drawnOf reads what a picture of the entries needs besides.
func drawnOf(ctx context.Context, client *etcd.Client, entries []history.Entry) (history.Picture, error) {
	registered, err := fleet.List(ctx, client)
	if err != nil {
		return history.Picture{}, err
	}
	releases := map[protocol.NodeID]string{}
	for _, r := range registered.Records {
		releases[r.ID] = r.Node.Version.String()
	}
	now, err := status.NewStore(client).Get(ctx)
	return history.Picture{Entries: entries, Releases: releases, Status: history.Brief(now.View)}, err
}

// firstOf returns when the picture begins: at the first entry of the list, but not before since.
func firstOf(entries []history.Entry, since time.Time) time.Time {
	if len(entries) == 0 || entries[0].Time.Before(since) {
		return since
	}
	return entries[0].Time
}

// historyTable prints what happened.
type historyTable struct{ terminal.Printer }

// write prints a picture, and the list, which begins with its header. A node that was out of service is drawn so, whichever
// kinds people list.
func (t historyTable) write(picture history.Picture, list [][]string) {
	if len(list) < 2 {
		fmt.Fprintln(t.W, "nothing happened in that time")
		return
	}
	t.lanes(picture)
	fmt.Fprintln(t.W)
	t.Rows(list)
}

const (
	// laneWidth is the most cells that a lane takes.
	laneWidth = 72
	// lineWidth is how wide a line is where the width of the screen is not known.
	lineWidth = 80
)

// lanes prints the picture above the list.
func (t historyTable) lanes(picture history.Picture) {
	names, releases := 0, 0
	picture.Width = 1
	for _, lane := range picture.Lanes() {
		names, releases = max(names, utf8.RuneCountInString(lane.Name)), max(releases, utf8.RuneCountInString(lane.Release))
	}
	picture.Width = cmp.Or(t.Screen.Width, lineWidth) - names - len(terminal.Gap)
	if releases > 0 {
		picture.Width -= releases + len(terminal.Gap)
	}
	picture.Width = min(max(10, picture.Width), laneWidth)
	for _, lane := range picture.Lanes() {
		line := fmt.Sprintf("%-*s%s%s%s%s", names, terminal.Clean(lane.Name), terminal.Gap,
			terminal.Clean(string(lane.Cells)), terminal.Gap, terminal.Clean(lane.Release))
		fmt.Fprintln(t.W, strings.TrimRight(line, " "))
	}
	begin, end := clock(picture.From), clock(picture.To)
	fmt.Fprintf(t.W, "%-*s%s%s%*s\n", names, "", terminal.Gap, begin, max(1, picture.Width-len(begin)), end)
}

// clock is a time of the table.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

func historyHead() []string { return []string{"TIME", "FOR", "KIND", "NODE", "REASON", "MESSAGE"} }

// historyRows lists entries. The commands in their messages get the flags for etcd in reach, which begins with a space; empty: none.
func historyRows(entries []history.Entry, reach string) [][]string {
	rows := [][]string{historyHead()}
	for _, e := range entries {
		rows = append(rows, []string{
			clock(e.Time), lasted(e), string(e.Kind), cmp.Or(string(e.Node), "-"), cmp.Or(string(e.Reason), "-"),
			httpapi.Pasteable(aboutSubject(e), reach),
		})
	}
	return rows
}

// aboutSubject is the sentence of an entry with its subject: a leader warns of several nodes and objects in the
// same words.
func aboutSubject(e history.Entry) string {
	text := e.Sentence()
	if (e.Kind == history.Warning || e.Kind == history.Object) && !strings.Contains(text, e.Subject) {
		return e.Subject + ": " + text
	}
	return text
}

// lasted formats how long an entry lasted.
func lasted(e history.Entry) string {
	switch d := e.Until.Sub(e.Time); {
	case e.Open():
		return "goes on"
	case e.Count > 1 && e.Lasted > 0:
		return shortly(e.Total()) // without the time between
	case d == 0:
		return "-"
	default:
		return shortly(d)
	}
}

func shortly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

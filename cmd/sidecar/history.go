package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
)

// historyFlags are the flags of history.
type historyFlags struct {
	node, since string
	kinds       []string
}

func (p program) historyCommand() *cobra.Command {
	f := historyFlags{since: "24h"}
	output := newChoice("table", "json")
	cmd := withEtcd(&cobra.Command{
		Use:   "history",
		Short: "Show what happened: gates, leaders, upgrades, failures",
		Long: `Show what happened: when which node was out of service and why, who led, what was
upgraded, and what failed. The sidecars keep it in etcd, also for nodes whose disks are
lost. The newest is last.

Above the list is one lane for each node, whatever --kind lists: █ in service, ░ out of
service, L where it began to lead, T where its turn of planned work began, and in the
first lane ═ while an upgrade or a rollback was under way, then ─ while every node served
and its objects were not complete. ▒ is partly out of service: an entry that joins
several outages has no more than the newest 12 of their times.`,
		Args:    noArgs,
		PreRunE: func(*cobra.Command, []string) error { _, err := f.filter(p.now()); return err }, // before etcd is asked
	}, func(ctx context.Context, client etcdClient, _ []string) error {
		return p.printHistory(ctx, client, f, output)
	})
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "Only entries about the node with this `ID`.")
	flags.StringVar(&f.since, "since", f.since, "How far back, as a `duration` like 90m, 12h or 2d.")
	flags.StringSliceVar(&f.kinds, "kind", nil, "Only entries of this `kind`: "+kindNames()+". Can be repeated.")
	bindOutput(cmd, &output)
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
			return history.Filter{}, usagef("--kind: %w", err)
		}
	}
	since, err := httpapi.ParseSince(f.since)
	if err != nil {
		return history.Filter{}, usagef("--since: %w", err)
	}
	return history.Filter{Node: protocol.NodeID(f.node), Since: now.Add(-since)}, nil
}

// ofKinds returns the entries of the kinds that people want to see; none given: all.
func (f historyFlags) ofKinds(entries []history.Entry) []history.Entry {
	wanted := slices.DeleteFunc(slices.Clone(f.kinds), func(kind string) bool { return kind == "" })
	if len(wanted) == 0 {
		return entries
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e history.Entry) bool { return !slices.Contains(wanted, string(e.Kind)) })
}

func (p program) printHistory(ctx context.Context, client etcdClient, f historyFlags, output choice) error {
	now := p.now()
	filter, err := f.filter(now)
	if err != nil {
		return err
	}
	all, err := journal.List(ctx, client.Client)
	if err != nil {
		return err
	}
	if err := checkKnown(ctx, client, filter.Node, all); err != nil {
		return err
	}
	drawn := filter.Filtered(all)
	entries := f.ofKinds(drawn)
	if output.value == "json" {
		return p.printJSON(httpapi.NewEntries(entries))
	}
	nodes, err := registeredNodes(ctx, client.Client)
	if err != nil {
		return err
	}
	if f.node != "" {
		nodes = slices.DeleteFunc(nodes, func(id protocol.NodeID) bool { return id != filter.Node })
	}
	table{w: p.stdout, now: now, screen: p.screen()}.history(drawn, historyRows(entries), nodes, firstOf(entries, filter.Since))
	return nil
}

// registeredNodes returns the IDs of all records.
func registeredNodes(ctx context.Context, client *etcd.Client) ([]protocol.NodeID, error) {
	registered, err := fleet.List(ctx, client)
	var nodes []protocol.NodeID
	for _, r := range registered.Records {
		nodes = append(nodes, r.ID)
	}
	return nodes, err
}

// firstOf returns when the picture begins: at the first entry of the list, but not before since.
func firstOf(entries []history.Entry, since time.Time) time.Time {
	if len(entries) == 0 || entries[0].Time.Before(since) {
		return since
	}
	return entries[0].Time
}

// history prints the picture of the entries to draw from a time on, and the list, which begins with its header. A node
// that was out of service is drawn so, whichever kinds people list.
func (t table) history(drawn []history.Entry, list [][]string, nodes []protocol.NodeID, from time.Time) {
	if len(list) < 2 {
		fmt.Fprintln(t.w, "nothing happened in that time")
		return
	}
	drawn = slices.DeleteFunc(slices.Clone(drawn), func(e history.Entry) bool { return !e.Open() && e.Until.Before(from) })
	t.lanes(drawn, nodes, from)
	fmt.Fprintln(t.w)
	t.rows(list)
}

// laneWidth is how many cells a lane takes where the width is not known, and at most.
const laneWidth = 72

// lanes prints the picture above the list. It begins with the first entry of the list.
func (t table) lanes(entries []history.Entry, nodes []protocol.NodeID, from time.Time) {
	longest := len("fleet")
	for _, e := range entries {
		longest = max(longest, len(e.Node))
	}
	for _, id := range nodes {
		longest = max(longest, len(id))
	}
	width := laneWidth
	if t.screen.width > 0 {
		width = max(10, min(width, t.screen.width-longest-len(gap)))
	}
	for _, lane := range history.Lanes(entries, nodes, from, t.now, width) {
		fmt.Fprintf(t.w, "%-*s%s%s\n", longest, clean(cmp.Or(string(lane.Node), "fleet")), gap, string(lane.Cells))
	}
	begin, end := clock(from), clock(t.now)
	fmt.Fprintf(t.w, "%-*s%s%s%*s\n", longest, "", gap, begin, max(1, width-len(begin)), end)
}

// clock is a time of the table.
func clock(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }

func historyHead() []string { return []string{"TIME", "FOR", "KIND", "NODE", "REASON", "MESSAGE"} }

func historyRows(entries []history.Entry) [][]string {
	rows := [][]string{historyHead()}
	for _, e := range entries {
		rows = append(rows, []string{
			clock(e.Time), lasted(e), string(e.Kind), cmp.Or(string(e.Node), "-"), cmp.Or(string(e.Reason), "-"), aboutSubject(e),
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

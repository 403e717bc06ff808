package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// history asks etcd, and if that does not answer, the sidecar, which remembers some.
func (s supportSources) history(ctx context.Context) ([]byte, error) {
	out, err := s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		entries, err := journal.List(ctx, client)
		return httpapi.NewEntries(entries), err
	})
	if err == nil {
		return out, nil
	}
	remembered, fails := s.shown("/history", "application/json")(ctx)
	if fails != nil {
		return nil, errors.Join(err, fails)
	}
	return remembered, nil
}

// historyText asks the same, one after the other.
func (s supportSources) historyText(ctx context.Context) ([]byte, error) {
	var out strings.Builder
	_, err := s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		entries, err := journal.List(ctx, client)
		if err != nil {
			return nil, err
		}
		registered, err := fleet.List(ctx, client)
		if err != nil {
			return nil, err
		}
		var nodes []protocol.NodeID
		for _, r := range registered.Records {
			nodes = append(nodes, r.ID)
		}
		table{w: &out, now: s.p.now()}.history(entries, historyRows(entries), nodes, firstOf(entries, time.Time{}))
		return nil, nil
	})
	if err == nil {
		return []byte(out.String()), nil
	}
	remembered, fails := s.rememberedText(ctx)
	if fails != nil {
		return nil, errors.Join(err, fails)
	}
	return remembered, nil
}

// rememberedText prints the entries that the sidecar remembers, and the nodes that it knows.
func (s supportSources) rememberedText(ctx context.Context) ([]byte, error) {
	var entries []report.Entry
	if err := s.decoded(ctx, "/history", &entries); err != nil {
		return nil, err
	}
	var status report.Status
	if err := s.decoded(ctx, "/status", &status); err != nil {
		return nil, err
	}
	var nodes []protocol.NodeID
	for _, n := range status.Fleet.Nodes {
		nodes = append(nodes, protocol.NodeID(n.ID))
	}
	drawn, list := drawnAndListed(entries)
	var out strings.Builder
	out.WriteString("etcd does not answer: this is what the sidecar remembers\n\n")
	table{w: &out, now: s.p.now()}.history(drawn, list, nodes, firstOf(drawn, time.Time{}))
	return []byte(out.String()), nil
}

// decoded reads the sidecar's answer to a path.
func (s supportSources) decoded(ctx context.Context, path string, into any) error {
	text, err := s.shown(path, "application/json")(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// drawnAndListed returns entries as they are drawn and listed. A sentence has its counts already.
func drawnAndListed(entries []report.Entry) (drawn []history.Entry, list [][]string) {
	list = [][]string{historyHead()}
	for _, r := range entries {
		e := history.Entry{
			Time: r.Time.Time, Until: r.Until.Time, Kind: history.Kind(r.Kind), Node: protocol.NodeID(r.Node),
			Reason: protocol.Reason(r.Reason), Message: r.Message, Count: r.Count,
		}
		for _, span := range r.Spans {
			s := history.Span{From: span.Time.Time, Until: span.Until.Time}
			e.Spans = append(e.Spans, s)
			if !s.Until.IsZero() {
				e.Lasted += s.Until.Sub(s.From)
			}
		}
		drawn = append(drawn, e)
		cells := historyRows([]history.Entry{e})[1]
		if len(e.Spans) > 0 && len(e.Spans) < e.Count && !e.Open() {
			cells[1] = "> " + cells[1] // it has the newest times only; the sentence has the sum
		}
		list = append(list, slices.Concat(cells[:len(cells)-1], []string{r.Message}))
	}
	return drawn, list
}

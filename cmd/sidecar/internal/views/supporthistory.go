package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/history"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/journal"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// history asks etcd, and if that fails, the sidecar, which remembers some.
func (s supportSources) history(ctx context.Context) ([]byte, error) {
	out, err := s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		entries, err := journal.List(ctx, client)
		return httpapi.NewEntries(entries), err
	})
	return orRemembered(out, err, func() ([]byte, error) { return s.shown("/history", "application/json")(ctx) })
}

// orRemembered returns the answer of etcd, or if that failed, of the sidecar.
func orRemembered(out []byte, err error, remembered func() ([]byte, error)) ([]byte, error) {
	if err == nil {
		return out, nil
	}
	out, fails := remembered()
	if fails != nil {
		return nil, errors.Join(err, fails)
	}
	return out, nil
}

// historyText asks etcd, and if that fails, the sidecar.
func (s supportSources) historyText(ctx context.Context) ([]byte, error) {
	var out strings.Builder
	_, err := s.withEtcd(ctx, func(ctx context.Context, client *etcd.Client) (any, error) {
		entries, err := journal.List(ctx, client)
		if err != nil {
			return nil, err
		}
		picture, err := drawnOf(ctx, client, entries)
		if err != nil {
			return nil, err
		}
		picture.From, picture.To = firstOf(entries, time.Time{}), s.p.Now()
		historyTable{terminal.Printer{W: &out}}.write(picture, historyRows(entries, ""))
		return nil, nil
	})
	return orRemembered([]byte(out.String()), err, func() ([]byte, error) { return s.rememberedText(ctx, err) })
}

// rememberedText prints why etcd was not read, the entries that the sidecar remembers, and the nodes that it knows.
func (s supportSources) rememberedText(ctx context.Context, unread error) ([]byte, error) {
	var entries []report.Entry
	if err := s.decoded(ctx, "/history", &entries); err != nil {
		return nil, err
	}
	var status report.Status
	if err := s.decoded(ctx, "/status", &status); err != nil {
		return nil, err
	}
	releases := map[protocol.NodeID]string{}
	for _, n := range status.Fleet.Nodes {
		releases[protocol.NodeID(n.ID)] = n.Release
	}
	drawn, list := drawnAndListed(entries)
	picture := history.Picture{Entries: drawn, Releases: releases, From: firstOf(drawn, time.Time{}), To: s.p.Now()}
	if r := status.Reconciler; r.Kind == "present" {
		picture.Status = fmt.Sprintf("%s %s, minimum %s", r.State, r.Version, r.MinimumCompatibleRelease)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "etcd was not read (%v): this is what the sidecar remembers\n\n", unread)
	historyTable{terminal.Printer{W: &out}}.write(picture, list)
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

// drawnAndListed returns entries for the lanes, and rows for the list. Messages of the API contain their counts.
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
		cells := historyRows([]history.Entry{e}, "")[1]
		if len(e.Spans) > 0 && len(e.Spans) < e.Count && !e.Open() {
			cells[1] = "> " + cells[1] // it lists the newest times only; the sentence contains the sum
		}
		list = append(list, slices.Concat(cells[:len(cells)-1], []string{r.Message}))
	}
	return drawn, list
}

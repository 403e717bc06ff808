package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// This file kills etcd under all sidecars, starts it again, and measures the outage.

const (
	// saysKill asks for kill -9 of etcd. The number of the outage follows.
	saysKill = "kill etcd "
	// recoveryTime bounds the time until all gates are confirmed again.
	recoveryTime = 2 * time.Minute
	// pollPause is the pause between two looks at a sidecar, and at etcd.
	pollPause = 10 * time.Millisecond
	// calmTime passes after each outage.
	calmTime = 15 * time.Second
)

// outage holds the consequences of one kill of etcd.
type outage struct {
	Planned time.Duration // how long etcd was not started again
	Down    time.Duration // until etcd served again
	Gates   time.Duration // from then until each gate was open and its sidecar reached etcd
	Leaders time.Duration // from then until each control plane had a leader besides
	Closed  int           // gates that were closed meanwhile

	// Of etcd, from its start until then.
	CPU      float64 // seconds
	Requests map[string]float64
}

func (o outage) all() float64 { return phase{Requests: o.Requests}.all() }

// parseOutages reads a list of durations.
func parseOutages(list string) ([]time.Duration, error) {
	var out []time.Duration
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		d, err := time.ParseDuration(word)
		if err != nil || d < 0 {
			return nil, fmt.Errorf("-outages: %q is not a duration, such as 15s", word)
		}
		out = append(out, d)
	}
	return out, nil
}

// keepEtcd kills etcd whenever the sidecars ask for that, and starts it again after the
// next duration. It returns the newest etcd when the sidecars have ended.
func (b *bench) keepEtcd(ctx context.Context, name, addr string, server, load *peer, outages []time.Duration) (*peer, error) {
	for i, down := range outages {
		select {
		case <-ctx.Done():
			return server, ctx.Err()
		case <-load.ended:
			return server, nil
		case <-load.when(fmt.Sprint(saysKill, i)):
		}
		if err := server.end(syscall.SIGKILL); err != nil {
			return server, err
		}
		select {
		case <-load.ended:
		case <-time.After(down):
		}
		next, err := b.launchEtcd(fmt.Sprintf("%s-etcd-%d", name, i+1), name, addr)
		if err != nil {
			return server, err
		}
		server = next
	}
	select {
	case <-ctx.Done():
		return server, ctx.Err()
	case <-load.ended:
		return server, nil
	}
}

func (b *bench) launchEtcd(id, name, addr string) (*peer, error) {
	return b.launch(id, "etcd", "-dir="+filepath.Join(b.dir, name), "-addr="+addr)
}

// endure measures all outages, one after another.
func (f loadFlags) endure(ctx context.Context, tenants []*tenant) ([]outage, error) {
	plan, err := parseOutages(f.outages)
	if err != nil {
		return nil, err
	}
	var out []outage
	for i, planned := range plan {
		o, err := f.endureOne(ctx, tenants, i)
		if err != nil {
			return out, fmt.Errorf("after etcd was off for %s: %w", planned, err)
		}
		o.Planned = planned
		out = append(out, o)
		pause(ctx, calmTime)
	}
	return out, ctx.Err()
}

func (f loadFlags) endureOne(ctx context.Context, tenants []*tenant, i int) (outage, error) {
	before, err := readEtcd(ctx, f.etcd)
	if err != nil {
		return outage{}, err
	}
	asked := time.Now()
	say(fmt.Sprint(saysKill, i))
	back, err := f.awaitAnother(ctx, before)
	if err != nil {
		return outage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	out := outage{Down: back.Sub(asked)}
	for _, t := range tenants {
		for _, n := range t.nodes {
			v, err := n.awaitView(ctx, func(v view) bool { return v.Ready.Ready && v.Etcd.LastContact.After(back) })
			if err != nil {
				return outage{}, err
			}
			if v.Ready.Since.After(asked) {
				out.Closed++
			}
		}
	}
	out.Gates = time.Since(back)
	for _, t := range tenants {
		if err := t.awaitLeader(ctx); err != nil {
			return outage{}, err
		}
	}
	out.Leaders = time.Since(back)
	counts, err := readEtcd(ctx, f.etcd)
	out.CPU, out.Requests = counts.cpu, counts.requests
	return out, err
}

// awaitAnother waits until an etcd serves that started later, and returns when it was seen.
func (f loadFlags) awaitAnother(ctx context.Context, before etcdCounts) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, recoveryTime)
	defer cancel()
	for ctx.Err() == nil {
		if now, err := readEtcd(ctx, f.etcd); err == nil && now.started > before.started {
			return time.Now(), nil
		}
		pause(ctx, pollPause)
	}
	return time.Time{}, fmt.Errorf("no other etcd serves at %s: %w", f.etcd, ctx.Err())
}

// view returns the current /status.
func (n *hosted) view() (view, error) {
	answer := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "http://localhost/status", http.NoBody)
	n.app.Handler().ServeHTTP(answer, req)
	var v view
	err := json.Unmarshal(answer.Body.Bytes(), &v)
	return v, err
}

// awaitView waits until /status satisfies ok.
func (n *hosted) awaitView(ctx context.Context, ok func(view) bool) (view, error) {
	for {
		v, err := n.view()
		if err != nil || ok(v) {
			return v, err
		}
		if pause(ctx, pollPause); ctx.Err() != nil {
			return view{}, fmt.Errorf("%s: %w: %+v", n.id, errors.Join(errPatience, ctx.Err()), v)
		}
	}
}

// awaitLeader waits until a sidecar of the tenant leads and holds.
func (t *tenant) awaitLeader(ctx context.Context) error {
	for {
		for _, n := range t.nodes {
			if v, err := n.view(); err != nil || v.leads() && v.Election.Step.Kind == "Hold" {
				return err
			}
		}
		if pause(ctx, pollPause); ctx.Err() != nil {
			return fmt.Errorf("%s has no leader: %w", t.name, errors.Join(errPatience, ctx.Err()))
		}
	}
}

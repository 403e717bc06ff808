package app

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/report"
)

// A sidecar shows its version and its kube-apiserver's, notices another version when a
// service starts, and warns of nodes of its release that differ.
func TestRun_versions(t *testing.T) {
	server, raw, api := ledByNewer(t)
	cfg, log, ready := withServices(t, configure(t, server.Endpoints()[0], api))
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	s.awaitReason(protocol.Ready)
	first := s.awaitOwn("the versions", func(n report.FleetNode) bool { return n.ApiserverVersion == "v1.0.0" && n.ServicesDigest != "" })

	n := protocol.Node{ID: "peer", Roles: protocol.Roles{Controller: true}, Version: s.app.bundle.Local().Get().Version, Digest: s.app.bundle.Local().Get().Digest}
	put(t, raw, keys.Node("peer"), fleet.Encode(n))
	peer := runPeer(t, cfg.Etcd, fleet.Shown{Presence: protocol.Presence{Ready: true, Reason: protocol.Ready, APIServer: "v1.0.0", Services: first.ServicesDigest}})
	s.awaitFleet("the peer", func(r report.Status) bool { return len(r.Fleet.Nodes) == 3 && len(differences(r)) == 0 })

	api.version.Store(new("v1.0.1"))
	writeService(t, cfg, log, ready, "two")
	second := s.awaitOwn("the new versions", func(n report.FleetNode) bool {
		return n.ApiserverVersion == "v1.0.1" && n.ServicesDigest != first.ServicesDigest
	})
	got := differences(s.awaitFleet("both warnings", func(r report.Status) bool { return len(differences(r)) == 2 }))
	if !strings.HasPrefix(got[0], "APIServersDiffer: ") || !strings.Contains(got[0], "v1.0.0 on peer; v1.0.1 on me") || !strings.HasPrefix(got[1], "ServicesDiffer: ") {
		t.Errorf("got %q", got)
	}
	_, body := s.get("/metrics")
	for _, metric := range []string{
		"lockstep_fleet_services_mismatches 1", "lockstep_fleet_apiserver_mismatches 1",
		`lockstep_node_info{node="me",release="0.1.0",store="` + s.app.follower.Store().Get().ID + `",version="0.1.0"} 1`,
		`lockstep_status_info{minimum="`, `lockstep_gate_changes_total{reason="Ready"} 1`,
	} {
		if !strings.Contains(body, metric) {
			t.Errorf("/metrics has no %s", metric)
		}
	}

	// While versions differ, it asks often.
	api.version.Store(new("v1.0.0"))
	event.Update(peer, func(s fleet.Shown) fleet.Shown { s.Services = second.ServicesDigest; return s })
	s.awaitFleet("that they are equal", func(r report.Status) bool { return len(differences(r)) == 0 })
}

// A node registers only beside the kube-apiserver that its bundle is for. One that is replaced
// later is a warning, and closes no gate.
func TestRun_otherAPIServer(t *testing.T) {
	server, raw, api := ledByNewer(t)
	dir := t.TempDir()
	writeBundle(t, dir, "release: 1.0.0\napiserverVersion: \"1.1\"", "one")
	cfg := configure(t, server.Endpoints()[0], api)
	cfg.Bundle = dir
	s := start(t, cfg)
	s.awaitFleet("the reason", func(r report.Status) bool {
		return r.Ready.Reason == string(protocol.OtherAPIServer) && strings.Contains(r.Ready.Message, "the bundle is for kube-apiserver 1.1") &&
			strings.Contains(r.Ready.Message, "the one of this node is v1.0.0")
	})
	s.awaitElectionShown(protocol.Withdrawn)
	if resp, err := raw.Get(t.Context(), keys.Node("me")); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("the record was written: %v, %v", resp.Kvs, err)
	}

	api.version.Store(new("v1.1.4"))
	s.awaitReason(protocol.Ready)

	api.version.Store(new("v1.0.0"))
	s.app.apiserver.State().Set(httpapi.APIServer{}) // it asks again when the kube-apiserver becomes ready
	got := s.awaitFleet("the warning", func(r report.Status) bool {
		return slices.ContainsFunc(r.Warnings, func(w report.Warning) bool { return w.Reason == string(protocol.OtherAPIServer) })
	})
	if !got.Ready.Ready {
		t.Errorf("the gate of a node that serves has closed: %+v", got.Ready)
	}
}

// differences returns the warnings about different versions on nodes of one release.
func differences(r report.Status) (out []string) {
	for _, w := range r.Warnings {
		if strings.HasSuffix(w.Reason, "sDiffer") {
			out = append(out, w.Reason+": "+w.Message)
		}
	}
	return out
}

// runPeer keeps the presence of a node "peer", which contains shows.
func runPeer(t *testing.T, cfg etcd.Config, shows fleet.Shown) *event.Value[fleet.Shown] {
	t.Helper()
	client, err := etcd.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	shown := event.New(shows)
	presence := fleet.NewPresence(fleet.PresenceConfig{
		Client: client, Node: "peer", Instance: "peer", MachineID: "peer", TTL: 3 * time.Second, Shown: shown, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = presence.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return shown
}

// awaitFleet waits until /status is as wanted.
func (s *sidecar) awaitFleet(what string, ok func(report.Status) bool) report.Status {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		now, snapshotChanged := s.app.show.Snapshot().Load()
		r := httpapi.NewStatus(now)
		if ok(r) {
			return r
		}
		if !event.Wait(ctx, snapshotChanged) {
			s.Fatalf("%s: the fleet is %+v, the warnings %+v", what, r.Fleet.Nodes, r.Warnings)
		}
	}
}

// awaitOwn waits until this node's entry in the fleet of /status is as wanted.
func (s *sidecar) awaitOwn(what string, ok func(report.FleetNode) bool) (own report.FleetNode) {
	s.Helper()
	s.awaitFleet(what, func(r report.Status) bool {
		for _, n := range r.Fleet.Nodes {
			if own = n; n.ID == "me" && ok(n) {
				return true
			}
		}
		return false
	})
	return own
}

package app

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
)

// wireServer creates the server of the HTTP API.
func (a *App) wireServer() error {
	reviewer, err := a.newReviewer()
	if err != nil {
		return err
	}
	a.server, err = httpapi.New(httpapi.Config{
		Snapshot: a.show.Snapshot(), Log: a.log, Registerer: a.registry,
		Metrics:       newScrapes(a.registry),
		MemberMetrics: a.memberMetrics(), Profiling: a.cfg.Profiling,
		Build:   buildinfo.Get(),
		Flags:   a.cfg.Flags,
		OpenAPI: a.cfg.OpenAPI,
		TLS:     a.cfg.TLS,
		Reviews: reviewer, AlwaysAllowPaths: a.cfg.Reviews.AlwaysAllowPaths,
		// Without a listener, the program that mounts the handler decides.
		LocalOnly: a.cfg.Listen != "" && !a.cfg.AnonymousStatus,
		Hosts:     a.hosts(),
		Stuck:     a.live.stuck,
		History:   a.journal.Read,
		Recording: a.recorder.WriteTo,
		FleetLock: a.fleetLock(), CommandFollows: a.turns.CommandFollows,
	})
	return err
}

// memberMetrics returns a function that reads the metrics of this node's etcd member; nil: etcd
// runs elsewhere.
func (a *App) memberMetrics() func(context.Context) ([]byte, error) {
	if a.cfg.Embedded == nil {
		return nil
	}
	own := a.cfg.Etcd.Endpoints[0] // this node's own member: the client may use others
	return func(ctx context.Context) ([]byte, error) {
		if !a.cfg.Embedded.HasMember() {
			return nil, errors.New("this node has no etcd member")
		}
		return a.etcd.ServerMetrics(ctx, own)
	}
}

// hosts returns the names by which clients may call the listener; nil: there is no listener, and
// the program that mounts the handler knows its names.
func (a *App) hosts() []string {
	if a.cfg.Listen == "" {
		return nil
	}
	out := []string{strings.ToLower(a.id.host)}
	if short, _, cut := strings.Cut(out[0], "."); cut {
		out = append(out, short)
	}
	if u, err := url.Parse(a.cfg.AdvertiseURL); err == nil {
		out = append(out, strings.ToLower(u.Hostname()))
	}
	if host, _, err := net.SplitHostPort(a.cfg.Listen); err == nil {
		out = append(out, strings.ToLower(host))
	}
	return out
}

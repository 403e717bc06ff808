package app

import (
	"net"
	"net/url"
	"strings"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
)

// wireServer creates the server of the HTTP API.
func (p *parts) wireServer() error {
	reviewer, err := p.newReviewer()
	if err != nil {
		return err
	}
	p.app.server, err = httpapi.New(httpapi.Config{
		Snapshot: p.show.Snapshot(), Log: p.log, Registerer: p.registry,
		Metrics:       newScrapes(p.registry),
		MemberMetrics: p.memberMetrics(), Profiling: p.cfg.Profiling,
		Build:   httpapi.Build(buildinfo.Get()),
		Flags:   p.cfg.Flags,
		OpenAPI: p.cfg.OpenAPI,
		TLS:     p.cfg.TLS,
		Reviews: reviewer, AlwaysAllowPaths: p.cfg.Reviews.AlwaysAllowPaths,
		// Without a listener, the program that mounts the handler decides.
		LocalOnly: p.cfg.Listen != "" && !p.cfg.AnonymousStatus,
		Hosts:     p.hosts(),
		Stuck:     p.live.stuck,
		History:   p.journal.Read,
		Recording: p.app.recorder.WriteTo,
		FleetLock: p.fleetLock(), CommandFollows: p.turns.CommandFollows,
	})
	return err
}

// hosts returns the names by which clients may call the listener; nil: there is no listener, and
// the program that mounts the handler knows its names.
func (p *parts) hosts() []string {
	if p.cfg.Listen == "" {
		return nil
	}
	out := []string{strings.ToLower(p.id.host)}
	if short, _, cut := strings.Cut(out[0], "."); cut {
		out = append(out, short)
	}
	if u, err := url.Parse(p.cfg.AdvertiseURL); err == nil {
		out = append(out, strings.ToLower(u.Hostname()))
	}
	if host, _, err := net.SplitHostPort(p.cfg.Listen); err == nil {
		out = append(out, strings.ToLower(host))
	}
	return out
}

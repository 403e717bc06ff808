package etcd

import (
	"context"

	"github.com/lockstep-dev/lockstep/protocol"
)

// Server is one etcd server, and its version.
type Server struct{ Endpoint, Version string }

// Servers asks each endpoint for its version. Those that do not answer are left
// out.
func (c *Client) Servers(ctx context.Context) []Server {
	var out []Server
	for _, endpoint := range c.client.Endpoints() {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		resp, err := c.client.Status(limited, endpoint)
		cancel()
		if err == nil {
			out = append(out, Server{Endpoint: endpoint, Version: resp.Version})
		}
	}
	return out
}

// KnownFault says why a server of this version should be upgraded; empty:
// nothing is known against it (DESIGN 4.6).
func KnownFault(version string) string {
	const fault = "a paused member can answer linearizable reads with stale data; upgrade to 3.5.28, 3.6.9 or newer"
	v, err := protocol.ParseVersion(version)
	if err != nil {
		return "its version is not known to this program"
	}
	r := v.Release
	switch {
	case r.Less(protocol.Release{Major: 3, Minor: 5, Patch: 28}),
		r.Minor == 6 && r.Major == 3 && r.Patch < 9:
		return fault
	}
	return ""
}

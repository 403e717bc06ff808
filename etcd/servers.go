package etcd

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Server is one etcd server and its version, such as 3.6.9.
type Server struct{ Endpoint, Version string }

// Servers asks each endpoint for its version. It leaves out servers that do not
// answer within the client's request timeout.
func (c *Client) Servers(ctx context.Context) []Server {
	var out []Server
	for _, l := range c.allLinks() {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		resp, err := l.status(limited)
		cancel()
		if err == nil {
			out = append(out, Server{Endpoint: l.endpoint, Version: resp.Version})
		}
	}
	return out
}

// Full reports whether the store refuses writes because its database is full. The
// alarm is one of the whole etcd cluster, so the server in use is asked, and if it does
// not answer, it is not.
func (c *Client) Full(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.attempts[reads].first)
	defer cancel()
	resp, err := c.link().status(ctx)
	return err == nil && slices.ContainsFunc(resp.Errors, isNoSpace)
}

// isNoSpace finds the alarm in a text of a server.
func isNoSpace(text string) bool { return strings.Contains(text, "NOSPACE") }

// The first releases of each minor release in which a paused member no longer answers
// linearizable reads with stale data (etcd-io/etcd issue 20418,
// docs/upstream.md#etcd-stale-reads). Later minor releases never had the fault.
var (
	fixedIn35 = version.MustParseGeneric("3.5.28")
	first36   = version.MustParseGeneric("3.6.0")
	fixedIn36 = version.MustParseGeneric("3.6.9")
)

// KnownFault returns why a server of this version should be upgraded. It is empty
// if no fault is known (docs/upstream.md#etcd-known-faults). Only the numbers
// count: vendors add a suffix to the versions of their builds.
func KnownFault(serverVersion string) string {
	v, err := version.ParseGeneric(serverVersion)
	switch {
	case err != nil:
		return "its version is not known to this program"
	case v.LessThan(fixedIn35), v.AtLeast(first36) && v.LessThan(fixedIn36):
		return "a paused member can answer linearizable reads with stale data; upgrade to 3.5.28, 3.6.9 or newer"
	}
	return ""
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// returnSteps bring a node without a working member back into its cluster: it has none,
// becomes one, or leaves (docs/protocol-membership.md#membership). Its steps to become a member or to
// leave begin after that.
func returnSteps() []step {
	return []step{
		{"directory", openMemberDirectory},
		{"certificate", renewCertificate},
		{"member", startDataOfMember},
		{"answer", awaitAnswer},
		{"cluster", awaitSameCluster},
	}
}

// startDataOfMember starts a member with data: its vote may be needed for the majority
// that adds or removes it.
func startDataOfMember(ctx context.Context, f *flow) error {
	if f.marker.Phase.Changing() && f.disk.EtcdBegun() {
		return startOldMember(ctx, f)
	}
	if len(f.directory.List().Get()) == 0 {
		return &datadir.RefusedError{
			Path: f.dir.Members(), Problem: "is missing or empty, and this node has no member of its own",
			Remedy: "restore it from a backup; without one, delete the directory, and join with a new token: docs/clusters.md#join",
		}
	}
	f.shared.useOthers()
	return nil
}

// awaitAnswer waits until a majority answers, without a limit. All members that a node without one knows
// may have been replaced while it was off: then the member of --join is asked, too.
func awaitAnswer(ctx context.Context, f *flow) error {
	err := f.client.Check(ctx)
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	err = fmt.Errorf("no majority of the members answers: %w", err)
	if f.marker.Phase != datadir.WithoutMember {
		return transient(err)
	}
	server, known := f.joinServer()
	if known {
		f.shared.alsoAsk(server)
		return transient(fmt.Errorf("%w; nor does etcd at %s, the node of --join; if it is no member any more, "+
			"start the sidecar with the --join of one: docs/clusters.md#others-replaced", err, server))
	}
	return transient(fmt.Errorf("%w; if these members were replaced while this node was off, "+
		"start the sidecar with --join=https://IP:%d of one of today: docs/clusters.md#others-replaced", err, f.cfg.JoinPort))
}

// joinServer returns the client URL of the member of --join, on the assumption
// that it uses the same ports as this node.
func (f *flow) joinServer() (string, bool) {
	u, err := url.Parse(f.cfg.Join)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	return "https://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(f.marker.ClientPort)), true
}

package cluster

import (
	"log/slog"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
)

// parts are shared by the ways of this node into the cluster and by its life there. Each part has only
// the fields that it uses.
type parts struct {
	process   // of its member, and the resident below it
	shared    *sharer
	directory *members.Directory // the list of the members
	signers   *signers
	record    *announcer
	log       *slog.Logger // of the worker "cluster"
}

// newParts returns the parts of a node. The process brings the status with it: show, state and
// measures. From here on the client also uses the members that this node knew last.
func newParts(cfg *Embedded, client *etcd.Client, log *slog.Logger, shared *sharer, p process) parts {
	own := log.With("worker", "cluster")
	r := &resident{run: event.New[*memberRun](nil)}
	r.adopted = func(m datadir.Marker) { shared.follow(r.dir.Layout, m) }
	p.resident, p.cfg, p.client, p.log, p.supervise = r, cfg, client, log, newSupervisor
	p.same = &sameness{resident: r, cfg: cfg, client: client, shared: shared}
	return parts{
		process: p, shared: shared, log: own,
		signers: &signers{resident: r, node: cfg.Node, client: client, log: own},
		record:  &announcer{resident: r, cfg: cfg, client: client, log: own},
		directory: members.New(members.Config{
			Client: client, File: datadir.Layout(cfg.DataDir).Members(),
			Publish: shared.list, PublishRemoved: shared.removed.Set, Log: log.With("worker", "members"),
		}),
	}
}

package role

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Local is what a sidecar knows of its node's roles. The zero value: nothing yet.
type Local struct {
	Roles  protocol.Roles
	Source Source
	Since  time.Time // when the sidecar learned them
}

// Known reports whether the roles are known.
func (l Local) Known() bool { return l.Source != "" }

// Source is where roles come from, as /status has it. Empty: they are unknown.
type Source string

// The sources.
const (
	FromCluster Source = "cluster" // the node's record, or what a new record gets
	FromDisk    Source = "disk"    // the last that this sidecar, or one before it, read from etcd
)

// FetcherConfig is what a Fetcher needs. All fields are required.
type FetcherConfig struct {
	Node  protocol.NodeID
	Fleet *event.Value[protocol.Fleet]
	// First are the roles of a record that this sidecar creates.
	First protocol.Roles
	Disk  *Disk
	Log   *slog.Logger
}

// Fetcher keeps the roles of this node. It reads the fleet and the disk, and writes
// Local.
type Fetcher struct {
	cfg   FetcherConfig
	local *event.Value[Local]
}

// NewFetcher returns a fetcher that knows nothing yet.
func NewFetcher(cfg FetcherConfig) *Fetcher {
	return &Fetcher{cfg: cfg, local: event.New(Local{})}
}

// Local follows the roles.
func (f *Fetcher) Local() *event.Value[Local] { return f.local }

// Run follows the node's record until ctx ends, and returns ctx's error. At first it
// knows what is on disk, which was loaded. Roles that cannot be kept on disk count all
// the same.
func (f *Fetcher) Run(ctx context.Context) error {
	if roles, found := f.cfg.Disk.Roles(); found && !f.local.Get().Known() {
		f.local.Set(Local{Roles: roles, Source: FromDisk, Since: time.Now()})
	}
	for {
		fleet, changed := f.cfg.Fleet.Load()
		if roles, known := f.rolesIn(fleet); known {
			f.learn(roles)
		}
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// rolesIn returns the roles that the fleet gives this node. A corrupt record has
// none: then the registrar writes those that it read last.
func (f *Fetcher) rolesIn(fleet protocol.Fleet) (protocol.Roles, bool) {
	record, found := fleet.Record(f.cfg.Node)
	switch {
	case fleet.Revision == 0:
		return protocol.Roles{}, false // etcd has not answered yet
	case !found:
		return f.cfg.First, true
	case record.Problem == "":
		return record.Node.Roles, true
	case f.local.Get().Known():
		return f.local.Get().Roles, true
	}
	return f.cfg.First, true
}

func (f *Fetcher) learn(roles protocol.Roles) {
	was := f.local.Get()
	if was.Source == FromCluster && was.Roles == roles {
		return
	}
	now := Local{Roles: roles, Source: FromCluster, Since: time.Now()}
	if err := f.cfg.Disk.SetRoles(roles); err != nil {
		f.cfg.Log.Warn("roles not kept on disk: without etcd, the next sidecar does not know them", "err", err)
	}
	if was.Roles != roles || !was.Known() {
		f.cfg.Log.Info("roles", "roles", roles.Names(), "was", was.Roles.Names())
	} else {
		now.Since = was.Since
	}
	f.local.Set(now)
}

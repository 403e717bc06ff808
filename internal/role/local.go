package role

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Local holds the roles of a sidecar's node. The zero value: they are not known yet.
type Local struct {
	Roles  protocol.Roles
	Source Source
	Since  time.Time // when the sidecar learned them
}

// Known reports whether the roles are known.
func (l Local) Known() bool { return l.Source != "" }

// Source is where the roles come from, as /status shows it; empty: they are unknown.
type Source string

// The sources.
const (
	FromCluster Source = "cluster" // the node's record, or the roles for its first record
	FromDisk    Source = "disk"    // the last roles that this sidecar or an earlier one read from etcd
)

// FetcherConfig configures a Fetcher. All fields are required.
type FetcherConfig struct {
	Node  protocol.NodeID
	Fleet *event.Value[protocol.Fleet]
	// First are the roles for a new record, if none are on disk.
	First protocol.Roles
	Disk  *Disk
	Log   *slog.Logger
}

// Fetcher follows this node's roles. It reads the fleet and the disk, and writes Local.
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

// Run follows the node's record until ctx ends, and returns ctx's error. It begins with the roles
// on disk, which must be loaded. It uses roles even if they cannot be written to disk; keep then
// tries again.
func (f *Fetcher) Run(ctx context.Context) error {
	if roles, found := f.cfg.Disk.Roles(); found && !f.local.Get().Known() {
		f.local.Set(Local{Roles: roles, Source: FromDisk, Since: time.Now()})
	}
	for {
		fleet, changed := f.cfg.Fleet.Load()
		if roles, source := f.rolesIn(fleet); source != "" {
			f.learn(roles, source)
		}
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// keep writes roles that Run could not write to disk, until ctx ends. If it cannot write them
// either, it returns the error, and the server starts it again after a pause.
func (f *Fetcher) keep(ctx context.Context) error {
	for {
		_, changed := f.local.Load()
		if err := f.cfg.Disk.KeepRoles(); err != nil {
			return fmt.Errorf("roles not kept on disk: without etcd, the next sidecar uses the roles from before: %w", err)
		}
		if !event.Wait(ctx, changed) {
			return ctx.Err()
		}
	}
}

// First returns the roles for a new record: the roles on disk, since people may have changed them
// before the record disappeared, or else the configured ones. Before the disk was read it returns
// false.
func (f *Fetcher) First() (protocol.Roles, bool) {
	if roles, found := f.cfg.Disk.Roles(); found {
		return roles, true
	}
	return f.cfg.First, f.cfg.Disk.Loaded()
}

// rolesIn returns this node's roles by the fleet, and their source; an empty source: they are not
// known yet. If the record is missing, it returns the roles that the registrar is about to write
// into a new one. If the record is corrupt, it returns the last known roles: the registrar writes
// those again.
func (f *Fetcher) rolesIn(fleet protocol.Fleet) (protocol.Roles, Source) {
	record, found := fleet.Record(f.cfg.Node)
	kept, onDisk := f.cfg.Disk.Roles()
	switch {
	case fleet.Revision == 0:
		return protocol.Roles{}, "" // etcd has not answered yet
	case found && record.Problem == "":
		return record.Node.Roles, FromCluster
	case found && f.local.Get().Known():
		return f.local.Get().Roles, f.local.Get().Source
	case onDisk:
		return kept, FromDisk
	}
	return f.cfg.First, FromCluster
}

func (f *Fetcher) learn(roles protocol.Roles, source Source) {
	was := f.local.Get()
	if was.Source == source && was.Roles == roles {
		return
	}
	now := Local{Roles: roles, Source: source, Since: time.Now()}
	if err := f.cfg.Disk.SetRoles(roles); err != nil {
		f.cfg.Log.Warn("roles not kept on disk, trying again", "err", err)
	}
	if was.Roles != roles || !was.Known() {
		f.cfg.Log.Info("roles", "roles", roles.Names(), "was", was.Roles.Names())
	} else {
		now.Since = was.Since
	}
	f.local.Set(now)
}

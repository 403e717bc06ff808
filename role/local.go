package role

import (
	"context"
	"fmt"
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
	FromCluster Source = "cluster" // the node's record, or what its first record gets
	FromDisk    Source = "disk"    // the last that this sidecar, or one before it, read from etcd
)

// FetcherConfig is what a Fetcher needs. All fields are required.
type FetcherConfig struct {
	Node  protocol.NodeID
	Fleet *event.Value[protocol.Fleet]
	// First are the roles of a record that this sidecar creates, if none are on disk.
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
// the same, and keep tries again.
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

// keep writes the roles that could not be kept on disk, until ctx ends. It fails if that is not
// possible either: then the server starts it again after a pause.
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

// First returns the roles of a record that this sidecar creates: those on disk, since
// people may have changed them before the record disappeared. They are not known (false)
// before the disk was read.
func (f *Fetcher) First() (protocol.Roles, bool) {
	if roles, found := f.cfg.Disk.Roles(); found {
		return roles, true
	}
	return f.cfg.First, f.cfg.Disk.Loaded()
}

// rolesIn returns the roles that the fleet gives this node, and from where; empty: they
// are not known yet. If the record is missing, they are those of the record that the
// registrar is about to create. A corrupt record has none: then the registrar writes those
// that it read last.
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

package bundle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// watchInterval is the pause between two reads of the bundle directory.
const watchInterval = 2 * time.Second

// Current is the bundle that a running sidecar uses. While the content of its directory is invalid
// or needs a restart, the last valid bundle stays in use.
type Current struct {
	dir    string // or BuiltinName
	log    *slog.Logger
	bundle *event.Value[*Bundle]
	local  *event.Value[protocol.Local]
	fault  *event.Value[error]
	// What others can change of the bundle that was read last.
	untrusted []trusted.Finding
}

// NewCurrent returns a Current that uses b, which was opened from dir. node describes the node
// without its bundle. Nothing is read before Run.
func NewCurrent(dir string, b *Bundle, node protocol.Local, log *slog.Logger) *Current {
	return &Current{dir: dir, log: log, bundle: event.New(b), local: event.New(b.on(node)), fault: event.New[error](nil)}
}

// Bundle follows the bundle in use.
func (c *Current) Bundle() *event.Value[*Bundle] { return c.bundle }

// Local follows the description of the node with the bundle in use.
func (c *Current) Local() *event.Value[protocol.Local] { return c.local }

// Fault follows why the content of the directory is not in use; nil: it is.
func (c *Current) Fault() *event.Value[error] { return c.fault }

// Problem returns the text of Fault; empty: there is none.
func (c *Current) Problem() string {
	if err := c.fault.Get(); err != nil {
		return err.Error()
	}
	return ""
}

// Run loads the bundle again each time its directory changes, until ctx ends. A built-in bundle
// never changes.
func (c *Current) Run(ctx context.Context) error {
	if c.dir == BuiltinName {
		<-ctx.Done()
		return ctx.Err()
	}
	c.warn(c.bundle.Get())
	return watch(ctx, c.dir, watchInterval, c.loaded)
}

// loaded starts to use b, or reports why the last valid bundle stays in use.
func (c *Current) loaded(b *Bundle, err error) {
	local := c.local.Get()
	if err == nil {
		c.warn(b)
		err = sameRelease(local, b)
	}
	if err == nil && b.on(local) != local {
		// Set the objects first: a pass for the new digest needs them.
		c.bundle.Set(b)
		c.local.Set(b.on(local))
		c.log.Info("bundle reloaded", "digest", b.Digest, "objects", len(b.Objects))
	}
	before := c.Problem()
	c.fault.Set(err)
	switch now := c.Problem(); {
	case now == before:
	case now != "":
		c.log.Error("bundle not in use, the last valid bundle stays in use", "err", err)
	default:
		c.log.Info("bundle is valid again")
	}
}

// warn warns if others can change the bundle, unless they could the last time.
func (c *Current) warn(b *Bundle) {
	found := trusted.FindAll(b.Paths())
	if len(found) > 0 && !slices.Equal(found, c.untrusted) {
		c.log.Warn("others can change the bundle, and with it what this sidecar writes into the cluster", "problem", found[0].Problem(), "more", len(found)-1)
	}
	c.untrusted = found
}

// on describes a node while it runs with b.
func (b *Bundle) on(node protocol.Local) protocol.Local {
	local := b.Local()
	local.ID, local.ExpireAfter, local.Ephemeral = node.ID, node.ExpireAfter, node.Ephemeral
	local.EtcdElectionTimeout = node.EtcdElectionTimeout
	return local
}

// notInUseError explains why a valid bundle is not in use.
type notInUseError struct {
	text string
	// waits: it is for the next start of the sidecar. A restarted sidecar would also run with a bundle of
	// another name, but not replace the objects.
	waits bool
}

func (e *notInUseError) Error() string { return e.text }

// sameRelease returns an error if a running sidecar cannot change to b: the release and the
// constraints in its record never change while it runs (docs/bundles.md).
func sameRelease(local protocol.Local, b *Bundle) error {
	switch {
	case b.Name != local.Bundle:
		return &notInUseError{text: fmt.Sprintf("bundle.yaml has the name %s, but this sidecar runs the bundle %s: the name says whose the objects are; "+
			"restore the directory, or if %s is meant to replace %s, restart the sidecar, and type: sidecar bundle replace --from %s --to %s", b.Name, local.Bundle, b.Name, local.Bundle, local.Bundle, b.Name)}
	case b.Version != local.Version:
		return &notInUseError{fmt.Sprintf("bundle.yaml has release %s, but this sidecar runs as %s: restart it to upgrade", b.Version, local.Version), true}
	case b.Constraints != local.Constraints:
		return &notInUseError{fmt.Sprintf("bundle.yaml has other constraints (minReconcilerRelease %s, minApiserverRelease %s) than this sidecar runs with (%s, %s): constraints belong to a release; restart the sidecar to change them",
			b.Constraints.MinReconciler, b.Constraints.MinAPIServer, local.Constraints.MinReconciler, local.Constraints.MinAPIServer), true}
	}
	return nil
}

// FaultWarning warns about a bundle that is not in use. A valid bundle that waits for the next start
// is part of an upgrade, so its reason does not hold the upgrade.
func FaultWarning(err error) protocol.Warning {
	other, valid := errors.AsType[*notInUseError](err)
	switch {
	case valid && other.waits:
		return protocol.Warning{Reason: warn.BundleWaits, Message: "its bundle directory has another bundle than this sidecar runs: " + err.Error()}
	case valid:
		return protocol.Warning{Reason: warn.BundleRejected, Message: "its bundle directory has a bundle with another name, and the last valid bundle stays in use: " +
			err.Error()}
	}
	return protocol.Warning{Reason: warn.BundleRejected, Message: fmt.Sprintf("its bundle directory was rejected, and the last valid bundle stays in use: %s; "+
		"the directory is read again when it changes, and a restart would fail until it is valid", err)}
}

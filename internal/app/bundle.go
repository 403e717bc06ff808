package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// bundleInterval is the pause between two reads of the bundle directory.
const bundleInterval = 2 * time.Second

// watchBundle loads the bundle again each time its directory changes, until ctx
// ends. A built-in bundle never changes.
func (a *App) watchBundle(ctx context.Context) error {
	if a.cfg.Bundle == bundle.BuiltinName {
		<-ctx.Done()
		return ctx.Err()
	}
	return bundle.Watch(ctx, a.cfg.Bundle, bundleInterval, a.reloaded)
}

// reloaded starts to use b, or reports why the last valid bundle stays in use.
func (a *App) reloaded(b *bundle.Bundle, err error) {
	if err == nil {
		err = sameRelease(a.local.Get(), b)
	}
	if err == nil && localOf(a.cfg, b) != a.local.Get() {
		// Set the objects first: a pass for the new digest needs them.
		a.bundle.Set(b)
		event.Update(a.local, func(protocol.Local) protocol.Local { return localOf(a.cfg, b) })
		a.log.Info("bundle reloaded", "digest", b.Digest, "objects", len(b.Objects))
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	a.bundleFault.Set(err)
	if problem != a.bundleProblem.Get() {
		a.bundleProblem.Set(problem)
		if problem != "" {
			a.log.Error("bundle rejected, the last valid bundle stays in use", "err", err)
		} else {
			a.log.Info("bundle is valid again")
		}
	}
}

// restartError explains why a valid bundle waits for the next start of the sidecar.
type restartError struct{ text string }

func (e *restartError) Error() string { return e.text }

// otherBundleError explains why a valid bundle with another name is not in use. A restarted sidecar
// would run with it, but not replace the objects.
type otherBundleError struct{ text string }

func (e *otherBundleError) Error() string { return e.text }

// sameRelease returns an error if a running sidecar cannot change to b: the release and the
// constraints in its record never change while it runs (docs/bundles.md).
func sameRelease(local protocol.Local, b *bundle.Bundle) error {
	switch {
	case b.Name != local.Bundle:
		return &otherBundleError{fmt.Sprintf("bundle.yaml has the name %s, but this sidecar runs the bundle %s: the name says whose the objects are; "+
			"restore the directory, or if %s is meant to replace %s, restart the sidecar, and type: sidecar bundle replace --from %s --to %s", b.Name, local.Bundle, b.Name, local.Bundle, local.Bundle, b.Name)}
	case b.Version != local.Version:
		return &restartError{fmt.Sprintf("bundle.yaml has release %s, but this sidecar runs as %s: restart it to upgrade", b.Version, local.Version)}
	case b.Constraints != local.Constraints:
		return &restartError{fmt.Sprintf("bundle.yaml has other constraints (minReconcilerRelease %s, minApiserverRelease %s) than this sidecar runs with (%s, %s): constraints belong to a release; restart the sidecar to change them",
			b.Constraints.MinReconciler, b.Constraints.MinApiserver, local.Constraints.MinReconciler, local.Constraints.MinApiserver)}
	}
	return nil
}

// watchDigests logs once when nodes of one release run different bundles, until ctx ends. It pauses
// between two comparisons, since many records may change. /status and a metric show the difference
// as long as it lasts.
func (a *App) watchDigests(ctx context.Context) error {
	var last []string
	for {
		fleet, fleetChanged := a.follower.Fleet().Load()
		now := digestWarnings(fleet, "")
		if !slices.Equal(now, last) {
			for _, w := range now {
				a.log.Warn("nodes of one release have different bundles", "message", w)
			}
			last = now
		}
		if !event.Wait(ctx, fleetChanged) || !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// digestWarnings warns of nodes that run the same release with different objects: each of them
// would apply its own when it leads. inForce is the digest in the status, to name the bundle in
// force; empty: do not name it.
func digestWarnings(f protocol.Fleet, inForce string) []string {
	var out []string
	for _, m := range protocol.Mismatched(f) {
		text := fmt.Sprintf("nodes of release %s have different bundles: %s; each leader applies its own bundle: give all these nodes the same one", m.Release, m)
		if slices.Contains(m.Values, inForce) {
			text += "; in force is that of " + string(m.Nodes[inForce][0])
		}
		out = append(out, text)
	}
	return out
}

package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// bundleInterval is the pause between two looks at the bundle's folder.
const bundleInterval = 2 * time.Second

// watchBundle takes over what changes in the bundle's folder, until ctx ends.
// Nothing changes in a built-in bundle.
func (a *App) watchBundle(ctx context.Context) error {
	if a.cfg.Bundle == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	return bundle.Watch(ctx, a.cfg.Bundle, bundleInterval, a.reloaded)
}

// reloaded takes over a bundle, or says why the last good one stays.
func (a *App) reloaded(b *bundle.Bundle, err error) {
	if err == nil {
		err = sameRelease(a.local.Get(), b)
	}
	if local := a.local.Get(); err == nil && (b.Digest != local.Digest || b.PruneImmediately != local.PruneImmediately) {
		// The objects first: a pass that was decided for the new digest finds them.
		a.bundle.Set(b)
		a.local.Update(func(protocol.Local) protocol.Local { return localOf(a.cfg, b) })
		a.log.Info("bundle reloaded", "digest", b.Digest, "objects", len(b.Objects))
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != a.bundleProblem.Get() {
		a.bundleProblem.Set(problem)
		if problem != "" {
			a.log.Error("bundle not reloaded, the last good one stays", "err", err)
		} else {
			a.log.Info("bundle is well again")
		}
	}
}

// sameRelease returns an error where a bundle is not one that a running sidecar
// may take over: what its record tells never changes (DESIGN 6.1).
func sameRelease(local protocol.Local, b *bundle.Bundle) error {
	switch {
	case b.Version != local.Version:
		return fmt.Errorf("bundle.yaml says release %s, and this sidecar runs as %s: restart it to upgrade", b.Version, local.Version)
	case b.Constraints != local.Constraints:
		return fmt.Errorf("bundle.yaml has other constraints (minReconcilerRelease %s, minApiserverRelease %s) than this sidecar runs with (%s, %s): they belong to a release; restart it to take them over",
			b.Constraints.MinReconciler, b.Constraints.MinApiserver, local.Constraints.MinReconciler, local.Constraints.MinApiserver)
	}
	return nil
}

// watchDigests logs nodes of one release with different bundles when they come
// up, until ctx ends. /status and a metric have them all the time.
func (a *App) watchDigests(ctx context.Context) error {
	var last []string
	for {
		fleet, changed := a.follower.Fleet().Load()
		now := digestWarnings(fleet)
		if !slices.Equal(now, last) {
			for _, w := range now {
				a.log.Warn("nodes of one release have different bundles", "message", w)
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// digestWarnings says which nodes want different objects though they are of one
// release: whichever of them leads writes its own.
func digestWarnings(f protocol.Fleet) []string {
	var out []string
	for _, m := range protocol.Mismatched(f) {
		out = append(out, fmt.Sprintf("release %s has different bundles: %s; each leader applies its own, so give all nodes the same", m.Release, m))
	}
	return out
}

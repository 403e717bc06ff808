package show

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

// LogDigests logs once when nodes of one release run different bundles, until ctx ends. It pauses
// between two comparisons, since many records may change. /status and a metric show the difference
// as long as it lasts.
func (s *Show) LogDigests(ctx context.Context) error {
	var last []string
	for {
		fleet, fleetChanged := s.Fleet.Load()
		status, statusChanged := s.Status.Load()
		status.View.Status.Digest = "" // a change of it is no news
		now := digestWarnings(status.View, fleet)
		if !slices.Equal(now, last) {
			for _, w := range now {
				s.cfg.Log.Warn("nodes of one release have different bundles", "message", w)
			}
			last = now
		}
		if !event.Wait(ctx, fleetChanged, statusChanged) || !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// digestWarnings warns of nodes that run the same release with different objects: each of them
// would apply its own when it leads. They name the bundle in force if the status has its digest.
func digestWarnings(v protocol.StatusView, f protocol.Fleet) []string {
	var out []string
	for _, m := range upgrade.MismatchedBundles(v, f) {
		applies := "each leader applies its own bundle"
		if m.Bundle != "" {
			applies = "after sidecar bundle replace, each leader applies its own bundle"
		}
		text := fmt.Sprintf("%s; %s: give all these nodes the same one", m.Bundles(), applies)
		if inForce := v.Status.Digest; slices.Contains(m.Values, inForce) {
			text += "; in force is that of " + string(m.Nodes[inForce][0])
		}
		out = append(out, text)
	}
	return out
}

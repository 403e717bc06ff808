package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// A bundle of another release is the next upgrade: it needs a restart, and holds nothing up.
// For one that is invalid, the opposite is true.
func TestBundleWarning(t *testing.T) {
	waits, rejected := bundleWarning(&restartError{"of release 1.1.0: restart it to upgrade"}), bundleWarning(errors.New("a.yaml:1: no kind"))
	if waits.Reason != protocol.BundleWaits || strings.Contains(waits.Message, "a restart would fail") {
		t.Errorf("got %+v", waits)
	}
	if rejected.Reason != protocol.BundleRejected || !strings.Contains(rejected.Message, "a restart would fail until it is valid") {
		t.Errorf("got %+v", rejected)
	}
	base := protocol.Local{Version: protocol.Version{Release: protocol.Release{Major: 1}}, Bundle: "base"}
	other := bundleWarning(sameRelease(base, &bundle.Bundle{Name: "acme", Version: base.Version}))
	if other.Reason != protocol.BundleRejected || strings.Contains(other.Message, "would fail") || !strings.Contains(other.Message, "if acme is meant to replace base") {
		t.Errorf("with another name: got %+v", other)
	}
}

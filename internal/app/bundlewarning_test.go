package app

import (
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// A bundle of another release is the next upgrade: a restart is what it needs, and it holds
// nothing. For one that is invalid, the opposite is true.
func TestBundleWarning(t *testing.T) {
	waits, rejected := bundleWaits("of release 1.1.0: restart it to upgrade"), bundleRejected("a.yaml:1: no kind")
	if waits.Reason != protocol.BundleWaits || strings.Contains(waits.Message, "a restart would fail") {
		t.Errorf("got %+v", waits)
	}
	if rejected.Reason != protocol.BundleRejected || !strings.Contains(rejected.Message, "a restart would fail until it is valid") {
		t.Errorf("got %+v", rejected)
	}
}

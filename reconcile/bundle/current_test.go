package bundle

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/warn"
)

// A bundle of another release is the next upgrade: it needs a restart, and holds nothing up.
// For one that is invalid, the opposite is true.
func TestFaultWarning(t *testing.T) {
	waits, rejected := FaultWarning(&notInUseError{"of release 1.1.0: restart it to upgrade", true}), FaultWarning(errors.New("a.yaml:1: no kind"))
	if waits.Reason != warn.BundleWaits || strings.Contains(waits.Message, "a restart would fail") {
		t.Errorf("got %+v", waits)
	}
	if rejected.Reason != warn.BundleRejected || !strings.Contains(rejected.Message, "a restart would fail until it is valid") {
		t.Errorf("got %+v", rejected)
	}
	base := protocol.Local{Version: protocol.Version{Release: protocol.Release{Major: 1}}, Bundle: "base"}
	other := FaultWarning(sameRelease(base, &Bundle{Name: "acme", Version: base.Version}))
	if other.Reason != warn.BundleRejected || strings.Contains(other.Message, "would fail") || !strings.Contains(other.Message, "if acme is meant to replace base") {
		t.Errorf("with another name: got %+v", other)
	}
}

// The node keeps its own values with each bundle.
func TestCurrent_Local(t *testing.T) {
	b, err := Open(BuiltinName)
	if err != nil {
		t.Fatal(err)
	}
	node := protocol.Local{ID: "me", ExpireAfter: time.Hour, EtcdElectionTimeout: 5 * time.Second, Ephemeral: true}
	c := NewCurrent(BuiltinName, b, node, slog.New(slog.DiscardHandler))
	next := *b
	next.Digest = "sha256:other"
	for _, used := range []*Bundle{b, &next} {
		c.loaded(used, nil)
		got := c.Local().Get()
		if got.ID != "me" || got.ExpireAfter != time.Hour || got.EtcdElectionTimeout != 5*time.Second || !got.Ephemeral || got.Digest != used.Digest {
			t.Errorf("got %+v", got)
		}
	}
}

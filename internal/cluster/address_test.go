package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

// While the address is missing on the machine, the step is tried again, and the files made with the
// address are named. Then all that asks for the address gets it.
func TestAwaitAddress(t *testing.T) {
	f := newFlow(t, func(string) {})
	f.shared.own = ""
	f.cfg.Address = "192.0.2.1" // of no machine (RFC 5737)
	err := awaitAddress(t.Context(), f)
	if _, again := errors.AsType[transientError](err); !again || !strings.Contains(err.Error(), "192.0.2.1 is not an address of this machine") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "replace") {
		t.Errorf("nothing was made yet, and it says: %v", err)
	}
	if err := os.MkdirAll(f.cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.cfg.DataDir, "cluster.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Layout(f.cfg.DataDir).ReadMarker(); errors.Is(err, datadir.ErrNoMarker) {
		t.Fatal("the marker has another name")
	}
	if err := awaitAddress(t.Context(), f); err == nil || !strings.Contains(err.Error(), "replace this node") {
		t.Errorf("got %v", err)
	}
	f.cfg.Address = "127.0.0.1"
	if err := awaitAddress(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if got := f.shared.value.Get().Address; got != "127.0.0.1" || f.shared.ownURL() != f.cfg.clientURL() {
		t.Errorf("got %q, %q", got, f.shared.ownURL())
	}
}

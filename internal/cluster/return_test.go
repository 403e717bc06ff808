package cluster

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/members"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// All members that a node without one knows were replaced while it was off. It says what to type, and
// the member of --join lets it in again.
func TestReturn_othersReplaced(t *testing.T) {
	today := newFlow(t, func(string) {})
	create(t, today)

	f := newFlow(t, func(string) {})
	if err := openDirectory(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := f.writeMarker(func(m *datadir.Marker) {
		*m = today.marker
		m.Node, m.Address, m.Intent, m.Phase, m.MemberID = "d", "127.0.0.2", datadir.Join, datadir.WithoutMember, ""
	}); err != nil {
		t.Fatal(err)
	}
	if err := datadir.MakeDir(f.dir.PKI()); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.LoadCA(today.dir.PKI())
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteCA(f.dir.PKI(), ca); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(f.dir.PKI(), ca, "d", "127.0.0.2"); err != nil {
		t.Fatal(err)
	}
	f.shared.useOthers()
	gone := "https://127.0.0.9:" + filepath.Base(strings.ReplaceAll(today.marker.ClientURL(), ":", "/"))
	f.shared.list([]members.Member{{ID: "1", Node: "a", ClientURL: gone}})

	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return awaitAnswer(ctx, f)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "with --join=https://IP:") {
		t.Errorf("without --join: got %v", err)
	}
	f.cfg.Join = "https://127.0.0.1:1"
	if err := ask(); err == nil || !strings.Contains(err.Error(), "the node of --join") {
		t.Errorf("the first attempt with --join: got %v", err)
	}
	if err := ask(); err != nil {
		t.Errorf("the second attempt with --join: got %v", err)
	}
	if got := f.shared.value.Get().Servers; len(got) != 1 || got[0] != gone {
		t.Errorf("services use %q", got)
	}
}

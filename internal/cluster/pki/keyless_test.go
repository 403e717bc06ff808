package pki_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// TestRenew_noKey: a node without the key of the CA renews nothing, and says when something is
// due.
func TestRenew_noKey(t *testing.T) {
	dir, ca := newDir(t)
	if err := os.Remove(filepath.Join(dir, pki.CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	before := content(t, dir, pki.NodeCertFile)
	if renewed, err := pki.Renew(dir, self, loopback, time.Now()); renewed || err != nil {
		t.Errorf("got %t, %v, want nothing due", renewed, err)
	}
	late := time.Now().Add(300 * day)
	if renewed, err := pki.Renew(dir, self, loopback, late); renewed || !errors.Is(err, pki.ErrNoKey) {
		t.Errorf("got %t, %v, want ErrNoKey", renewed, err)
	}
	if content(t, dir, pki.NodeCertFile) != before {
		t.Error("the certificate was changed")
	}
	// The address of another certificate makes this one due: another node is asked.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := false
	err := pki.Renewal{
		Dir: dir, Node: self, Address: "127.0.0.9", Every: time.Hour, Log: slog.New(slog.DiscardHandler),
		Ask:     func(context.Context) error { asked = true; return nil },
		Renewed: func(context.Context) { cancel() },
	}.Keep(ctx)
	if !asked || !errors.Is(err, context.Canceled) {
		t.Errorf("asked is %t, %v", asked, err)
	}
	// With the key, the next call renews.
	if err := pki.WriteCA(dir, ca); err != nil {
		t.Fatal(err)
	}
	if renewed, err := pki.Renew(dir, self, loopback, late); !renewed || err != nil {
		t.Errorf("got %t, %v, want a renewal", renewed, err)
	}
}

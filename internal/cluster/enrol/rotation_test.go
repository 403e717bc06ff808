package enrol

import (
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// forgedDir returns a directory with a certificate that a user with the key of the old CA signed.
func forgedDir(t *testing.T, ca *pki.CA, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := pki.WriteAuthority(dir, ca.Certificate()); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, ca, name, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func wantNoKey(t *testing.T, url, dir string, ca pki.Hash, status int) {
	t.Helper()
	key, err := AskKey(t.Context(), url, dir, ca)
	if refused, is := errors.AsType[*RefusedError](err); !is || refused.Status != status || len(key) > 0 {
		t.Errorf("got a key of %d bytes, %v, want status %d", len(key), err, status)
	}
}

// While the CA is replaced, only a voter in the record gets the new key. A user who signs certificates with
// the old key gets neither the key nor a certificate, under any name. No node joins.
func TestRotation(t *testing.T) {
	r := newRig(t, nil)
	pkiDir := r.cluster.First.Dir
	next, err := pki.NewNext(pkiDir, "c")
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteTrusted(pkiDir, []*x509.Certificate{r.cluster.CA.Certificate(), next.Certificate()}); err != nil {
		t.Fatal(err)
	}
	learner, stranger := joinedDir(t, r, "b"), forgedDir(t, r.cluster.CA, "whoever")
	if _, err := AskAuthority(t.Context(), r.url, stranger); err != nil {
		t.Errorf("a node that has left the members renews its certificate at other times, got %v", err)
	}
	wantNoKey(t, r.url, pkiDir, next.Hash(), http.StatusForbidden)
	rotation := record.Rotation{Phase: membership.RotationTrusting, Since: time.Now(), Hash: next.Hash(), Given: []protocol.NodeID{"b"}}
	if err := quorum.WriteRotation(t.Context(), r.client, 0, rotation); err != nil {
		t.Fatal(err)
	}
	wantNoKey(t, r.url, pkiDir, next.Hash(), http.StatusForbidden) // a voter that may not get it yet
	wantNoKey(t, r.url, learner, next.Hash(), http.StatusForbidden)
	written, err := quorum.ReadRotation(t.Context(), r.client)
	if err != nil {
		t.Fatal(err)
	}
	rotation.Given = append(rotation.Given, "a", "whoever")
	if err := quorum.WriteRotation(t.Context(), r.client, written.Revision, rotation); err != nil {
		t.Fatal(err)
	}
	key, err := AskKey(t.Context(), r.url, pkiDir, next.Hash())
	if _, keyed := pki.NewKeyed(next.Certificate(), key); err != nil || keyed != nil {
		t.Errorf("the voter got no key: %v, %v", err, keyed)
	}
	wantNoKey(t, r.url, pkiDir, r.cluster.CA.Hash(), http.StatusForbidden)
	for _, name := range []string{"a", "whoever"} {
		dir := forgedDir(t, r.cluster.CA, name)
		wantNotGiven(t, r.url, dir, http.StatusGone, "has another key")
		wantNoKey(t, r.url, dir, next.Hash(), http.StatusGone)
	}
	if _, err := AskAuthority(t.Context(), r.url, learner); err != nil {
		t.Errorf("a member cannot renew its certificate: %v", err)
	}
	wantRefused(t, "rotating", r.request("d", r.token(1, time.Hour)), http.StatusServiceUnavailable, "is being replaced")
}

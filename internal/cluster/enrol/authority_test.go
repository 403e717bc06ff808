package enrol

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
)

// joinedDir returns the directory of a node that just joined, as its sidecar writes it.
func joinedDir(t *testing.T, r *rig, name string) string {
	t.Helper()
	dir := t.TempDir()
	key, err := pki.EnsureKeyPair(dir)
	if err != nil {
		t.Fatal(err)
	}
	req := r.request(name, r.token(1, time.Hour))
	req.Key = key
	given, err := Join(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteAuthority(dir, given.CA); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.WriteCertificate(dir, given.Certificate); err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantNotGiven asks for the key of the CA, and wants a refusal.
func wantNotGiven(t *testing.T, url, dir string, status int, text string) {
	t.Helper()
	got, err := AskAuthority(t.Context(), url, dir)
	refused, is := errors.AsType[*RefusedError](err)
	if !is || refused.Status != status || !strings.Contains(err.Error(), text) || len(got.Key) > 0 {
		t.Errorf("got %v, want status %d with %q", err, status, text)
	}
}

// TestAskAuthority: a voter gets the key of the CA. A learner gets a new certificate only,
// and a node that was removed gets nothing.
func TestAskAuthority(t *testing.T) {
	r := newRig(t, nil)
	voter, err := AskAuthority(t.Context(), r.url, r.cluster.First.Dir)
	if err != nil || len(voter.Key) == 0 {
		t.Fatalf("a voter got no key: %v", err)
	}
	if _, err := pki.NewKeyed(voter.Certificate, voter.Key); err != nil {
		t.Error(err)
	}
	dir := joinedDir(t, r, "b")
	learner, err := AskAuthority(t.Context(), r.url, dir)
	if err != nil || len(learner.Key) > 0 {
		t.Fatalf("a learner got a key of %d bytes, %v", len(learner.Key), err)
	}
	before, err := pki.ReadCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	after, err := pki.WriteCertificate(dir, learner.Node)
	if err != nil || after.Subject.CommonName != "b" || !after.IPAddresses[0].Equal(before.IPAddresses[0]) || after.SerialNumber.Cmp(before.SerialNumber) == 0 {
		t.Errorf("got the certificate %+v, %v", after, err)
	}
	if _, err := quorum.Remove(t.Context(), r.client, quorum.Removal{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	wantNotGiven(t, r.url, dir, http.StatusGone, "was removed")
}

// TestAskAuthority_otherName: a certificate with the name of a voter, and another key, gets no
// key of the CA.
func TestAskAuthority_otherName(t *testing.T) {
	r := newRig(t, nil)
	dir := t.TempDir()
	if err := pki.WriteAuthority(dir, r.cluster.CA.Certificate()); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, r.cluster.CA, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if got, err := AskAuthority(t.Context(), r.url, dir); err != nil || len(got.Key) > 0 {
		t.Errorf("got a key of %d bytes, %v", len(got.Key), err)
	}
}

// TestAskAuthority_strangers: without a certificate, and with one of another CA, nothing is
// given.
func TestAskAuthority_strangers(t *testing.T) {
	r := newRig(t, nil)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS(r.url, r.cluster.CA.Hash())}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+PathAuthority, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a certificate: got %s", resp.Status)
	}
	other, err := pki.NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := pki.WriteAuthority(dir, other.Certificate()); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, other, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteAuthority(dir, r.cluster.CA.Certificate()); err != nil { // it trusts the server
		t.Fatal(err)
	}
	if got, err := AskAuthority(t.Context(), r.url, dir); err == nil {
		t.Errorf("with a certificate of another CA: got %+v", got)
	}
}

// TestJoin_noKey: a member without the key of the CA refuses joins before the token is used,
// and names the voters. Otherwise its directory is as good as the others.
func TestJoin_noKey(t *testing.T) {
	r := newRig(t, nil)
	keyless := r.cluster.First.Dir
	if err := os.Remove(filepath.Join(keyless, pki.CAKeyFile)); err != nil {
		t.Fatal(err)
	}
	tok := r.token(1, time.Hour)
	wantRefused(t, "no key", r.request("b", tok), http.StatusServiceUnavailable, "does not have the key", r.cluster.First.JoinURL)
	all, err := token.List(t.Context(), r.client)
	if err != nil || len(all) != 1 || len(all[0].UsedBy) != 0 {
		t.Errorf("got %+v, %v, want no use", all, err)
	}
	wantNotGiven(t, r.url, keyless, http.StatusServiceUnavailable, "does not have the key")
}

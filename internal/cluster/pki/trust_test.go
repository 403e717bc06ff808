package pki_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// TestReplaceCA takes the steps by which a node replaces its CA. After each of them the files
// are whole: there is a CA that signs, and the node's certificate is of one that it trusts.
func TestReplaceCA(t *testing.T) {
	dir, old := newDir(t)
	next, err := pki.NewNext(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	signs := func(want *pki.CA) {
		t.Helper()
		got, err := pki.LoadCA(dir)
		if err != nil || got.Hash() != want.Hash() {
			t.Fatalf("got %v, want the CA that signs, %v", got, err)
		}
		cert, err := pki.ReadCertificate(dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := pki.ReadTrusted(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pki.IssuerOf(cert, all); err != nil {
			t.Fatal(err)
		}
	}
	trust := func(all ...*pki.CA) {
		t.Helper()
		var certs []*x509.Certificate
		for _, ca := range all {
			certs = append(certs, ca.Certificate())
		}
		if err := pki.WriteTrusted(dir, certs); err != nil {
			t.Fatal(err)
		}
	}
	signs(old)
	trust(old, next)
	signs(old)
	if renewed, err := pki.Renew(dir, self, loopback, time.Now()); renewed || err != nil {
		t.Errorf("got %t, %v: the old CA still signs", renewed, err)
	}
	trust(next, old)
	signs(next)
	if renewed, err := pki.Renew(dir, self, loopback, time.Now()); !renewed || err != nil {
		t.Fatalf("got %t, %v, want a certificate of the new CA", renewed, err)
	}
	signs(next)
	if err := pki.AdoptNextKey(dir); err != nil {
		t.Fatal(err)
	}
	signs(next)
	if err := pki.AdoptNextKey(dir); err != nil {
		t.Error(err)
	}
	if err := pki.DropKeys(dir, next.Certificate()); err != nil {
		t.Fatal(err)
	}
	trust(next)
	signs(next)
	cert, err := pki.ReadCertificate(dir)
	if err != nil || pki.Verify(cert, next.Certificate(), loopback, time.Now()) != nil || pki.Verify(cert, old.Certificate(), loopback, time.Now()) == nil {
		t.Errorf("the certificate is not of the new CA: %v", err)
	}
}

// A renewal of the CA's own certificate keeps the other one that the node trusts.
func TestReplaceCA_renewed(t *testing.T) {
	dir, old := newDir(t)
	next, err := pki.NewNext(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteTrusted(dir, []*x509.Certificate{old.Certificate(), next.Certificate()}); err != nil {
		t.Fatal(err)
	}
	if renewed, err := pki.Renew(dir, self, loopback, time.Now().Add(8*365*day)); !renewed || err != nil {
		t.Fatalf("got %t, %v", renewed, err)
	}
	all, err := pki.ReadTrusted(dir)
	if err != nil || len(all) != 2 || pki.HashOf(all[0]) != old.Hash() || pki.HashOf(all[1]) != next.Hash() {
		t.Errorf("got %d CAs, %v", len(all), err)
	}
}

// A voter that trusts the new CA without holding its key yet signs nothing with it.
func TestReplaceCA_noKey(t *testing.T) {
	dir, old := newDir(t)
	next, err := pki.NewCA("c")
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteTrusted(dir, []*x509.Certificate{next.Certificate(), old.Certificate()}); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.LoadCA(dir); !errors.Is(err, pki.ErrNoKey) {
		t.Errorf("got %v, want ErrNoKey", err)
	}
	if got, err := pki.LoadTrusted(dir, old.Hash()); err != nil || got.Hash() != old.Hash() {
		t.Errorf("got %v", err)
	}
	if err := pki.WriteNextKey(dir, next); err != nil {
		t.Fatal(err)
	}
	if got, err := pki.LoadTrusted(dir, next.Hash()); err != nil || got.Hash() != next.Hash() {
		t.Errorf("got %v", err)
	}
}

// DropKeys deletes the keys that an interrupted replacement left.
func TestDropKeys(t *testing.T) {
	dir, ca := newDir(t)
	if _, err := pki.NewNext(dir, "c"); err != nil {
		t.Fatal(err)
	}
	if err := pki.DropKeys(dir, ca.Certificate()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, pki.NextKeyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key of a CA that nothing trusts is still there: %v", err)
	}
	if _, err := pki.LoadCA(dir); err != nil {
		t.Error(err)
	}
}

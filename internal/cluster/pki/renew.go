package pki

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
)

// renewInterval is the pause between two checks whether a certificate is due.
const renewInterval = time.Hour

// Renew replaces the certificates in dir that are due, with the key in dir: this node's,
// and the authority's, each after two thirds of its life, or when it is not valid yet
// because the clock was set back. It reports whether it replaced anything. etcd reads
// this node's certificate at each handshake, and the authority's at its start only: the
// old one stays valid for years, and signs the same. On a node without the authority's
// key, it returns ErrNoKey if anything is due.
func Renew(dir, node, address string, now time.Time) (bool, error) {
	ca, err := LoadCA(dir)
	if errors.Is(err, ErrNoKey) {
		return false, checkDue(dir, address, now, err)
	}
	if err != nil {
		return false, err
	}
	renewedCA := due(ca.cert, now)
	if renewedCA {
		if ca, err = ca.renewed(now); err != nil {
			return false, fmt.Errorf("renew the cluster's CA: %w", err)
		}
		if err := WriteAuthority(dir, ca.cert); err != nil {
			return false, fmt.Errorf("renew the cluster's CA: %w", err)
		}
	}
	key, err := EnsureKeyPair(dir)
	if err != nil {
		return renewedCA, err
	}
	cert, err := ReadCertificate(dir)
	if err == nil && !due(cert, now) && usable(cert, key, ca, node, address, now) {
		return renewedCA, nil
	}
	text, err := ca.issue(key.Public(), node, address, now)
	if err == nil {
		_, err = WriteCertificate(dir, text)
	}
	return err == nil || renewedCA, err
}

// checkDue returns noKey if a certificate is due on a node that cannot sign one.
func checkDue(dir, address string, now time.Time, noKey error) error {
	authority, err := ReadAuthority(dir)
	if err != nil {
		return err
	}
	cert, err := ReadCertificate(dir)
	if err != nil {
		return err
	}
	if due(cert, now) || due(authority, now) || Verify(cert, authority, address, now) != nil {
		return noKey
	}
	return nil
}

// due reports whether two thirds of a certificate's life are over, or its life did not begin yet.
func due(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.Before(cert.NotBefore) || now.After(cert.NotBefore.Add(life/3*2))
}

// Renewal keeps the certificates in a directory renewed.
type Renewal struct {
	Dir, Node, Address string
	// Every is the pause between two checks. Zero: an hour.
	Every time.Duration
	// Ask asks another node to sign this node's certificate, if one is due on a node without
	// the key of the authority.
	Ask func(context.Context) error
	// Renewed is called after each renewal.
	Renewed func(context.Context)
	Log     *slog.Logger
}

// Keep calls Renew at once, and again after each pause, until ctx ends.
func (r Renewal) Keep(ctx context.Context) error {
	for {
		renewed, err := Renew(r.Dir, r.Node, r.Address, time.Now())
		if errors.Is(err, ErrNoKey) {
			err = r.Ask(ctx)
			renewed = err == nil
		}
		if err != nil {
			r.Log.Error("certificate not renewed", "dir", r.Dir, "err", err)
		}
		if renewed {
			r.Log.Info("certificate renewed", "dir", r.Dir)
			r.Renewed(ctx)
		}
		if !backoff.Sleep(ctx, cmp.Or(r.Every, renewInterval)) {
			return ctx.Err()
		}
	}
}

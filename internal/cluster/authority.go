package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
)

// This file gets the key of the cluster's CA for a node that votes, and new certificates for
// one that does not (docs/adr/0019-voters-have-the-ca-key.md).

// errNoSigner is returned if no other voter gave the key of the CA.
var errNoSigner = errors.New("no other voter gives this node the key of the cluster's CA")

const (
	// authorityPatience is how long a join waits for the key. Then the node serves without, and
	// goes on asking.
	authorityPatience = 5 * time.Second
	// keylessPause is the longest pause between two questions for the key.
	keylessPause = 10 * time.Second
)

// writeAuthority writes the CA of a cluster, with its key if there is one (PEM).
func (f *flow) writeAuthority(cert *x509.Certificate, key []byte) error {
	if len(key) == 0 {
		return pki.WriteAuthority(f.dir.PKI(), cert)
	}
	ca, err := pki.NewKeyed(cert, key)
	if err != nil {
		return err
	}
	return pki.WriteCA(f.dir.PKI(), ca)
}

// receiveAuthority gets the key of the CA for a new voter. The join goes on without it:
// keepAuthority asks again.
func receiveAuthority(ctx context.Context, f *flow) error {
	ctx, cancel := context.WithTimeout(ctx, authorityPatience)
	defer cancel()
	pauses := backoff.Backoff{First: firstPause, Max: time.Second}
	for {
		err := f.ensureAuthority(ctx)
		if err == nil {
			return nil
		}
		if !pauses.Sleep(ctx) {
			f.log.Warn("this node has no key of the cluster's CA yet, asking again", "err", err)
			return nil
		}
	}
}

// keepAuthority gets the key of the CA for a member without it, and returns when ctx ends.
func (f *flow) keepAuthority(ctx context.Context) error {
	pauses := backoff.Backoff{First: time.Second, Max: keylessPause, Jitter: 0.2}
	warned := false
	for {
		err := f.ensureAuthority(ctx)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		if !warned && ctx.Err() == nil {
			warned = true
			f.log.Warn("this node votes without the key of the cluster's CA: no node can join here; asking the other voters again and again",
				"err", err, "remedy", "start the other voters; if all of them lack the key, restore ca.key from a backup: docs/clusters.md#refusals")
		}
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// ensureAuthority gets the key of the CA, if it is missing on this node.
func (f *flow) ensureAuthority(ctx context.Context) error {
	_, err := pki.LoadCA(f.dir.PKI())
	if !errors.Is(err, pki.ErrNoKey) {
		return err
	}
	answer, err := f.askAuthority(ctx, func(a enrol.Authority) bool { return len(a.Key) > 0 })
	if err != nil {
		return err
	}
	if err := f.writeAuthority(answer.Certificate, answer.Key); err != nil {
		return err
	}
	f.log.Info("this node votes, and has received the key of the cluster's CA")
	return nil
}

// renewElsewhere asks another node to sign a new certificate for this one.
func (f *flow) renewElsewhere(ctx context.Context) error {
	answer, err := f.askAuthority(ctx, func(enrol.Authority) bool { return true })
	if err != nil {
		return fmt.Errorf("have the certificate renewed: %w", err)
	}
	if err := f.writeAuthority(answer.Certificate, answer.Key); err != nil {
		return err
	}
	_, err = pki.WriteCertificate(f.dir.PKI(), answer.Node)
	return err
}

// askAuthority asks the other voters, until the answer of one is good enough.
func (f *flow) askAuthority(ctx context.Context, enough func(enrol.Authority) bool) (enrol.Authority, error) {
	all, err := quorum.List(ctx, f.client)
	if err != nil {
		return enrol.Authority{}, err
	}
	errs := []error{errNoSigner}
	for _, v := range all {
		if v.Learner || v.JoinURL == "" || string(v.Node) == f.cfg.Node {
			continue
		}
		answer, err := enrol.AskAuthority(ctx, v.JoinURL, f.dir.PKI())
		if err == nil && enough(answer) {
			return answer, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return enrol.Authority{}, errors.Join(errs...)
}

// checkExpired returns an error if the certificate of this node has expired, and this node
// cannot sign another one. Until then, another node signs it.
func (f *flow) checkExpired() error {
	cert, err := pki.ReadCertificate(f.dir.PKI())
	if err != nil {
		return err
	}
	if time.Now().Before(cert.NotAfter) {
		return nil
	}
	return fmt.Errorf("the certificate of this node has expired at %s, and %w; remove this node on a member, delete %q here, and join with a new token",
		cert.NotAfter.UTC().Format(time.RFC3339), pki.ErrNoKey, f.dir.Path())
}

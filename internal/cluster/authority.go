package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
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

// signers are the other voters, as this node asks them for the key of the CA and for certificates.
type signers struct {
	*resident
	node   string // the node ID
	client *etcd.Client
	log    *slog.Logger
}

// write writes the CA of a cluster, with its key if there is one (PEM).
func (s *signers) write(cert *x509.Certificate, key []byte) error {
	if len(key) == 0 {
		return pki.WriteAuthority(s.dir.PKI(), cert)
	}
	ca, err := pki.NewKeyed(cert, key)
	if err != nil {
		return err
	}
	return pki.WriteCA(s.dir.PKI(), ca)
}

// receiveAuthority gets the key of the CA for a new voter. The join goes on without it:
// signers.keep asks again.
func receiveAuthority(ctx context.Context, f *flow) error {
	ctx, cancel := context.WithTimeout(ctx, authorityPatience)
	defer cancel()
	pauses := backoff.Backoff{First: firstPause, Max: time.Second}
	for {
		err := f.signers.ensure(ctx)
		if err == nil {
			return nil
		}
		if !pauses.Sleep(ctx) {
			f.log.Warn("this node has no key of the cluster's CA yet, asking again", "err", err)
			return nil
		}
	}
}

// keep gets the key of the CA for a member without it, and returns when ctx ends.
func (s *signers) keep(ctx context.Context) error {
	pauses := backoff.Backoff{First: time.Second, Max: keylessPause, Jitter: 0.2}
	warned := false
	for {
		err := s.ensure(ctx)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		if !warned && ctx.Err() == nil {
			warned = true
			s.log.Warn("this node votes without the key of the cluster's CA: no node can join here; asking the other voters again and again",
				"err", err, "remedy", "start the other voters; if all of them lack the key, restore ca.key from a backup: docs/clusters.md#refusals")
		}
		if !pauses.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// ensure gets the key of the CA, if it is missing on this node.
func (s *signers) ensure(ctx context.Context) error {
	_, err := pki.LoadCA(s.dir.PKI())
	if !errors.Is(err, pki.ErrNoKey) {
		return err
	}
	answer, err := s.ask(ctx, func(a enrol.Authority) bool { return len(a.Key) > 0 })
	if err != nil {
		return err
	}
	if err := s.write(answer.Certificate, answer.Key); err != nil {
		return err
	}
	s.log.Info("this node votes, and has received the key of the cluster's CA")
	return nil
}

// renew asks another node to sign a new certificate for this one.
func (s *signers) renew(ctx context.Context) error {
	answer, err := s.ask(ctx, func(enrol.Authority) bool { return true })
	if err != nil {
		return fmt.Errorf("have the certificate renewed: %w", err)
	}
	if err := s.write(answer.Certificate, answer.Key); err != nil {
		return err
	}
	_, err = pki.WriteCertificate(s.dir.PKI(), answer.Node)
	return err
}

// ask asks the other voters for what the CA signs or has, until the answer of one is good enough.
func (s *signers) ask(ctx context.Context, enough func(enrol.Authority) bool) (answer enrol.Authority, err error) {
	err = s.each(ctx, func(joinURL string) (bool, error) {
		answer, err = enrol.AskAuthority(ctx, joinURL, s.dir.PKI())
		return err == nil && enough(answer), err
	})
	return answer, err
}

// key asks the other voters for the key of a CA that is to replace the present one.
func (s *signers) key(ctx context.Context, ca pki.Hash) (key []byte, err error) {
	err = s.each(ctx, func(joinURL string) (bool, error) {
		key, err = enrol.AskKey(ctx, joinURL, s.dir.PKI(), ca)
		return err == nil && len(key) > 0, err
	})
	return key, err
}

// each asks the other voters at their join ports, until one gives what it is asked for.
func (s *signers) each(ctx context.Context, ask func(joinURL string) (enough bool, err error)) error {
	all, err := quorum.List(ctx, s.client)
	if err != nil {
		return err
	}
	errs := []error{errNoSigner}
	for _, v := range all {
		if v.Learner || v.JoinURL == "" || string(v.Node) == s.node {
			continue
		}
		enough, err := ask(v.JoinURL)
		if enough {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkExpired returns an error if the certificate of this node has expired, and this node
// cannot sign another one. Until then, another node signs it.
func checkExpired(dir *datadir.Dir) error {
	cert, err := pki.ReadCertificate(dir.PKI())
	if err != nil {
		return err
	}
	if time.Now().Before(cert.NotAfter) {
		return nil
	}
	return fmt.Errorf("the certificate of this node has expired at %s, and %w; remove this node on a member, delete %q here, and join with a new token",
		cert.NotAfter.UTC().Format(time.RFC3339), pki.ErrNoKey, dir.Path())
}

package enrol

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
)

// skew is how far the clock of this node may be off, on either side. Certificates are
// valid from a day before they were issued.
const skew = 2 * time.Hour

// errNoJoinPort is returned for a server that shows only its own certificate, such as etcd at
// the other ports of a member: that certificate alone does not show which CA signed it.
var errNoJoinPort = errors.New("it does not show its CA, as a join port does, so its certificate may be of another CA than the token names")

// verify returns why a server is not a member of the cluster; nil: its chain contains
// a CA with that hash, which signed its certificate, for the address in the URL.
func verify(state tls.ConnectionState, target string, ca pki.Hash, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("it has no certificate")
	}
	leaf, authority := state.PeerCertificates[0], (*x509.Certificate)(nil)
	for _, cert := range state.PeerCertificates[1:] {
		if pki.HashOf(cert) == ca && cert.IsCA {
			authority = cert
		}
	}
	switch {
	case authority == nil && len(state.PeerCertificates) == 1:
		return errNoJoinPort
	case authority == nil:
		return errors.New("its certificate is of another CA than the token names; if the CA was replaced, create another token")
	}
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if err := pki.Verify(leaf, authority, "", validAt(leaf, now)); err != nil {
		return fmt.Errorf("its certificate is invalid: %w", err)
	}
	if err := leaf.VerifyHostname(u.Hostname()); err != nil {
		return fmt.Errorf("its certificate is for %v, not for %s; use that address in --join", leaf.IPAddresses, u.Hostname())
	}
	return nil
}

// validAt returns now, or the nearest time at which a certificate is valid if this
// node's clock may be wrong by that much.
func validAt(cert *x509.Certificate, now time.Time) time.Time {
	switch {
	case now.Before(cert.NotBefore) && now.Add(skew).After(cert.NotBefore):
		return cert.NotBefore
	case now.After(cert.NotAfter) && now.Add(-skew).Before(cert.NotAfter):
		return cert.NotAfter
	}
	return now
}

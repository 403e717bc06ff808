package enrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
)

// checkClient ends a handshake with a certificate that cannot belong to a node, before TLS
// checks its signature: that is expensive for a large key of another kind. TLS calls it without
// a certificate too.
func (s *Server) checkClient(raw [][]byte, _ [][]*x509.Certificate) error {
	if len(raw) == 0 {
		return nil
	}
	leaf, err := x509.ParseCertificate(raw[0])
	if err != nil {
		return err
	}
	if key, is := leaf.PublicKey.(*ecdsa.PublicKey); !is || key.Curve != elliptic.P256() {
		return errors.New("the client's certificate has no P-256 key")
	}
	trusted, err := pki.ReadTrusted(s.cfg.PKI)
	if err != nil {
		return err
	}
	authority, err := pki.IssuerOf(leaf, trusted)
	if err != nil {
		return err
	}
	return pki.Verify(leaf, authority, "", s.cfg.Now())
}

// giveAuthority answers a node that shows a certificate of the CA: with the key of the CA
// if the node votes, and with a new certificate.
func (s *Server) giveAuthority(ctx context.Context, _ http.ResponseWriter, r *http.Request) ([]byte, error) {
	switch {
	case r.Method != http.MethodPost:
		return nil, &refusal{invalid, http.StatusMethodNotAllowed, PathAuthority + " only answers POST"}
	case r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return nil, &refusal{invalid, http.StatusUnauthorized, PathAuthority + " needs the certificate of a node of this cluster"}
	}
	cert := r.TLS.PeerCertificates[0] // checkClient verified it
	node := protocol.NodeID(cert.Subject.CommonName)
	standing, err := quorum.StandingOf(ctx, s.cfg.Client, node, pki.HashOf(cert))
	if err != nil {
		return nil, explain(err, node)
	}
	if !standing.MayRenew() {
		return nil, &refusal{conflict, http.StatusGone, fmt.Sprintf("node %q was removed from the cluster, or has another key", node)}
	}
	if wanted := r.URL.Query().Get(queryCA); wanted != "" {
		return s.giveKey(ctx, node, standing, wanted)
	}
	ca, err := s.authority(ctx)
	if err != nil {
		return nil, err
	}
	renewed, err := ca.IssueAgain(cert)
	if err != nil {
		return nil, invalidf("%v", err)
	}
	out := authorityAnswer{CACertificate: string(ca.CertPEM()), Certificate: string(renewed)}
	if standing.MaySign() {
		out.CAKey = string(ca.KeyPEM())
		s.cfg.Log.Info("a voter received the key of the cluster's CA", "joining", string(node), "client", r.RemoteAddr)
	}
	return json.Marshal(out)
}

// giveKey answers a voter that asks for the key of the next CA.
func (s *Server) giveKey(ctx context.Context, node protocol.NodeID, standing membership.Standing, wanted string) ([]byte, error) {
	rotation, err := quorum.ReadRotation(ctx, s.cfg.Client)
	if err != nil {
		return nil, explain(err, node)
	}
	if !standing.MaySign() || !quorum.MayHaveNextKey(rotation, node) || rotation.Hash.String() != wanted {
		return nil, &refusal{conflict, http.StatusForbidden, fmt.Sprintf("node %q may not have the key of that CA", node)}
	}
	ca, err := pki.LoadTrusted(s.cfg.PKI, pki.Hash(rotation.Hash))
	if errors.Is(err, pki.ErrNoKey) {
		return nil, &refusal{unavailable, http.StatusServiceUnavailable, "this member does not have the key of the new CA"}
	}
	if err != nil {
		return nil, err
	}
	s.cfg.Log.Info("a voter received the key of the new CA", "joining", string(node))
	return json.Marshal(authorityAnswer{CACertificate: string(ca.CertPEM()), CAKey: string(ca.KeyPEM())})
}

// authority returns the CA with its key. Without the key it returns a refusal that
// names the other members that may have it.
func (s *Server) authority(ctx context.Context) (*pki.CA, error) {
	ca, err := pki.LoadCA(s.cfg.PKI)
	if !errors.Is(err, pki.ErrNoKey) {
		return ca, err
	}
	text := "this member cannot sign certificates yet, because it does not have the key of the cluster's CA"
	if others := s.signers(ctx); len(others) > 0 {
		text += "; ask another voter: " + strings.Join(others, ", ")
	}
	return nil, &refusal{unavailable, http.StatusServiceUnavailable, text}
}

// signers returns the join URLs of the voters; nil: they are not known.
func (s *Server) signers(ctx context.Context) (urls []string) {
	all, err := quorum.List(ctx, s.cfg.Client)
	if err != nil {
		return nil
	}
	for _, v := range all {
		if !v.Learner && v.JoinURL != "" {
			urls = append(urls, v.JoinURL)
		}
	}
	return urls
}

// Authority is the answer of a voter to a node of its cluster.
type Authority struct {
	// Certificate is the CA's. Key (PEM) is empty if the node does not vote.
	Certificate *x509.Certificate
	Key         []byte
	// Node is a new certificate of the node, PEM.
	Node []byte
}

// AskAuthority asks the member with a join URL for the key of the CA, and for a new certificate,
// with the certificate in dir. A *RefusedError is the answer of a member.
func AskAuthority(ctx context.Context, joinURL, dir string) (Authority, error) {
	in, err := post(ctx, joinURL, "", dir)
	if err != nil {
		return Authority{}, err
	}
	return in.decode(dir)
}

// AskKey asks the member with a join URL for the key (PEM) of the next CA. The caller checks that
// it is that key.
func AskKey(ctx context.Context, joinURL, dir string, ca pki.Hash) ([]byte, error) {
	in, err := post(ctx, joinURL, "?"+queryCA+"="+ca.String(), dir)
	return []byte(in.CAKey), err
}

// queryCA is the parameter with the hash of a CA.
const queryCA = "ca"

func post(ctx context.Context, joinURL, query, dir string) (in authorityAnswer, err error) {
	target, err := JoinURL(joinURL)
	if err != nil {
		return in, err
	}
	config, err := pki.ClientTLS(dir)
	if err != nil {
		return in, err
	}
	resp, text, err := exchange(ctx, strings.TrimSuffix(target, Path)+PathAuthority+query, config, nil)
	if err != nil {
		return in, fmt.Errorf("reach %s: %w", joinURL, err)
	}
	if resp.StatusCode != http.StatusOK {
		return in, newRefusedError(joinURL, resp, text)
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return in, fmt.Errorf("the answer of %s: %w", joinURL, err)
	}
	return in, nil
}

// decode checks that the answer is of the CA in dir.
func (a authorityAnswer) decode(dir string) (Authority, error) {
	own, err := pki.ReadAuthority(dir)
	if err != nil {
		return Authority{}, err
	}
	cert, err := parseCA(a.CACertificate, a.CAKey)
	if err != nil {
		return Authority{}, err
	}
	if pki.HashOf(cert) != pki.HashOf(own) {
		return Authority{}, errors.New("the answer has another CA than this node")
	}
	return Authority{Certificate: cert, Key: []byte(a.CAKey), Node: []byte(a.Certificate)}, nil
}

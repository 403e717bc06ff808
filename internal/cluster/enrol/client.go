package enrol

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/report"
)

// Request is the input of Join. All fields are required.
type Request struct {
	URL   string // of the join port of a member
	Token token.Token

	Node    string // the node ID
	Address string // the IP at which other nodes reach this one

	PeerPort, ClientPort, JoinPort int

	// Key is this node's key. It must be the same in each attempt: the use of the
	// token is bound to it.
	Key *ecdsa.PrivateKey
}

// Answer is the cluster's answer to a node that may join.
type Answer struct {
	Cluster       string // the UUID; the token of the etcd cluster
	EtcdClusterID uint64
	MemberID      uint64 // of this node
	CA            *x509.Certificate
	CAKey         []byte // PEM; empty, unless an older sidecar answered
	Certificate   []byte // of this node, PEM
	Members       []etcd.Member
}

// RefusedError is a refusal by a member.
type RefusedError struct {
	URL    string
	Status int
	Detail string
	Clocks string // both clocks, if they differ much; else empty
}

func (e *RefusedError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s answered %d %s, and is probably not a sidecar: check --join", e.URL, e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("%s refuses the join: %s%s", e.URL, e.Detail, e.Clocks)
}

// Permanent reports whether another attempt would be refused too, until a person does
// something.
func (e *RefusedError) Permanent() bool {
	return e.Status != http.StatusTooManyRequests && e.Status < http.StatusInternalServerError
}

// Removed reports whether an operator removed the node from the cluster since it joined.
// Older members answer that as they refuse a token: then it is false.
func (e *RefusedError) Removed() bool { return e.Status == http.StatusGone }

// UntrustedError is a server that is not a member of the token's cluster. Nothing was sent
// to it.
type UntrustedError struct {
	URL     string
	Problem string
}

func (e *UntrustedError) Error() string {
	what := "is not a member of the token's cluster"
	if e.Problem == errNoJoinPort.Error() {
		what = "is not the join port of a member"
	}
	return fmt.Sprintf("%s %s: %s; nothing was sent to it; check --join, which has the address and the join port of a member (8087 by default), and --token", e.URL, what, e.Problem)
}

const (
	// attemptTimeout is longer than a member needs to answer or to refuse.
	attemptTimeout = writeTimeout + 5*time.Second
	maxAnswer      = 1 << 20
)

// Join makes one attempt. It may be repeated, with the same key: the answer is the same.
// A *RefusedError that is not permanent, and any error that is neither that nor an
// *UntrustedError, can disappear by itself.
func Join(ctx context.Context, r Request) (Answer, error) {
	target, err := JoinURL(r.URL)
	if err != nil {
		return Answer{}, err
	}
	body, err := r.encode()
	if err != nil {
		return Answer{}, err
	}
	resp, text, err := exchange(ctx, target, clientTLS(r.URL, r.Token.CA), body)
	switch {
	case err != nil:
		return Answer{}, reachError(r.URL, err)
	case resp.StatusCode != http.StatusOK:
		return Answer{}, newRefusedError(r.URL, resp, text)
	}
	return r.decode(text)
}

// exchange sends a request to the join port of a member, and returns the answer with its text.
func exchange(ctx context.Context, target string, config *tls.Config, body []byte) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{
		// Without a proxy: it could not be verified.
		Transport:     &http.Transport{TLSClientConfig: config, TLSHandshakeTimeout: headerTimeout, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp, text, err
}

// JoinURL returns the URL for a request, or an error about the URL that a person gave.
func JoinURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https", u.Hostname() == "", u.Port() == "", u.User != nil, u.RawQuery != "",
		strings.Trim(u.Path, "/") != "":
		return "", fmt.Errorf("%q must be https://ADDRESS:PORT, with the address and the join port of a member", text)
	}
	return u.Scheme + "://" + u.Host + Path, nil
}

func (r Request) encode() ([]byte, error) {
	csr, err := pki.NewRequest(r.Key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(request{
		Token: requestToken{ID: r.Token.ID, Secret: r.Token.Secret[:]},
		Node:  r.Node, Address: r.Address, PeerPort: r.PeerPort, ClientPort: r.ClientPort, JoinPort: r.JoinPort,
		CertificateRequest: csr,
	})
}

// newRefusedError keeps the text of a sidecar only.
func newRefusedError(target string, resp *http.Response, body []byte) error {
	var p report.Problem
	if json.Unmarshal(body, &p) != nil || p.Status != resp.StatusCode {
		p.Detail = ""
	}
	return &RefusedError{URL: target, Status: resp.StatusCode, Detail: p.Detail, Clocks: clocks(resp, time.Now())}
}

// worthNaming is a difference of two clocks that is more than a slow answer.
const worthNaming = time.Minute

// clocks names the clock of the member that answered and this node's, if they differ much.
func clocks(resp *http.Response, here time.Time) string {
	there, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil || there.Sub(here).Abs() < worthNaming {
		return ""
	}
	return fmt.Sprintf("; the clock of that member shows %s, and this node's clock shows %s: set the one that is wrong",
		there.UTC().Format(time.RFC3339), here.UTC().Format(time.RFC3339))
}

// another is the remedy if the member does not start again.
const another = "if that node is off, join at another member: sidecar cluster token create on that one prints what to type"

// reachError explains why the server was not reached, or why its certificate is not trusted.
func reachError(target string, err error) error {
	if untrusted, is := errors.AsType[*UntrustedError](err); is {
		return untrusted
	}
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s closed the connection: it gets too many requests, or it is stopping; %s", target, another)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s in %s; check the network and --join; %s", target, attemptTimeout, another)
	}
	if op, is := errors.AsType[*net.OpError](err); is && op.Op == "dial" {
		return fmt.Errorf("reach %s: %w; check that the sidecar there runs with --etcd=embedded, and --join; %s", target, err, another)
	}
	return fmt.Errorf("reach %s: %w; %s", target, err, another)
}

// decode checks that the answer is from a member of the token's cluster, and for this
// node.
func (r Request) decode(text []byte) (Answer, error) {
	var in answer
	if err := json.Unmarshal(text, &in); err != nil {
		return Answer{}, fmt.Errorf("%s answered something that is not an answer to a join: %w", r.URL, err)
	}
	wrong := func(what string) error {
		return fmt.Errorf("%s answered something that is not an answer to a join: %s", r.URL, what)
	}
	ca, err := parseCA(in.CACertificate, in.CAKey)
	if err != nil {
		return Answer{}, wrong(err.Error())
	}
	if pki.HashOf(ca) != r.Token.CA {
		return Answer{}, &UntrustedError{r.URL, "its CA is another one"}
	}
	cert, err := pki.ParseCertificate([]byte(in.Certificate))
	if err != nil {
		return Answer{}, wrong(err.Error())
	}
	if err := pki.Verify(cert, ca, r.Address, validAt(cert, time.Now())); err != nil {
		return Answer{}, wrong("its certificate: " + err.Error())
	}
	if public, is := cert.PublicKey.(*ecdsa.PublicKey); !is || !public.Equal(r.Key.Public()) {
		return Answer{}, wrong("its certificate is for another key")
	}
	out := Answer{Cluster: in.Cluster, CA: ca, CAKey: []byte(in.CAKey), Certificate: []byte(in.Certificate)}
	var ok bool
	if out.EtcdClusterID, ok = keyspace.ParseMemberID(in.EtcdClusterID); !ok || in.Cluster == "" {
		return Answer{}, wrong("it does not name the cluster")
	}
	if out.MemberID, ok = keyspace.ParseMemberID(in.MemberID); !ok {
		return Answer{}, wrong("it does not name the member")
	}
	for _, m := range in.Members {
		id, ok := keyspace.ParseMemberID(m.ID)
		if !ok || m.PeerURL == "" {
			return Answer{}, wrong("a member without an ID or a URL")
		}
		member := etcd.Member{ID: id, Name: m.Name, PeerURLs: []string{m.PeerURL}, Learner: m.Learner}
		if m.ClientURL != "" {
			member.ClientURLs = []string{m.ClientURL}
		}
		out.Members = append(out.Members, member)
	}
	return out, nil
}

// parseCA returns the CA's certificate. If the answer contains a key, it must be the key of that certificate.
func parseCA(cert, key string) (*x509.Certificate, error) {
	if key == "" {
		return pki.ParseAuthority([]byte(cert))
	}
	ca, err := pki.ParseCA([]byte(cert), []byte(key))
	if err != nil {
		return nil, err
	}
	return ca.Certificate(), nil
}

// clientTLS accepts exactly the members of the cluster whose CA's public key has that
// hash. The check is part of the handshake, so nothing is sent before it.
func clientTLS(target string, ca pki.Hash) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies: no file on this machine contains the CA yet
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := verify(state, target, ca, time.Now()); err != nil {
				return &UntrustedError{target, err.Error()}
			}
			return nil
		},
	}
}

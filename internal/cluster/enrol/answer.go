package enrol

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// answer carries out one request. The token is checked first: a client without a valid
// one learns nothing of the members, and no signature of it is checked, which costs more
// than the token. The token is used last, before the node is added: a request that is
// refused costs no use.
func (s *Server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	in, csr, err := parse(w, r)
	if err != nil {
		return nil, err
	}
	node, err := in.member()
	if err != nil {
		return nil, invalidf("%v", err)
	}
	node.Key, node.Added = pki.HashOfRequest(csr), s.cfg.Now().UTC()
	claim := token.Claim{ID: token.ParseID(in.Token.ID), Node: node.Node, Address: node.Address, Key: node.Key, Now: s.cfg.Now()}
	if len(in.Token.Secret) != len(claim.Secret) || claim.ID == "" {
		return nil, invalidf("token: no token has this form")
	}
	copy(claim.Secret[:], in.Token.Secret)
	if err := s.mayJoin(ctx, node, claim); err != nil {
		return nil, explain(err, node.Node)
	}
	if _, err := s.authority(ctx); err != nil { // before the token is used
		return nil, err
	}
	if err := pki.CheckRequest(csr); err != nil {
		return nil, invalidf("certificateRequest: %v", err)
	}
	s.cfg.After("check")
	if err := token.Consume(ctx, s.cfg.Client, claim); err != nil {
		return nil, explain(err, node.Node)
	}
	s.cfg.After("token")
	added, err := s.add(ctx, node)
	if err != nil {
		return nil, explain(err, node.Node)
	}
	out, err := s.sign(ctx, in, added)
	if err != nil {
		return nil, err
	}
	s.cfg.After("sign")
	s.cfg.Log.Info("a node joins", "joining", string(node.Node), "address", node.Address, "member", keyspace.MemberID(added.ID),
		"token", claim.ID, "client", r.RemoteAddr)
	return out, nil
}

const (
	// patience is how long a node waits here for its turn: longer than the 5 s for which
	// etcd adds no member after a new voter. Then it is asked to try again.
	patience  = 8 * time.Second
	turnPause = 200 * time.Millisecond
)

// add adds the node as soon as etcd allows that.
func (s *Server) add(ctx context.Context, node record.Member) (quorum.Added, error) {
	began := time.Now()
	for {
		added, err := quorum.Add(ctx, s.cfg.Client, quorum.Addition{Node: node, Joins: true, After: s.cfg.After})
		if !errors.Is(err, quorum.ErrWait) || time.Since(began) > patience || !backoff.Sleep(ctx, turnPause) {
			return added, err
		}
	}
}

// mayJoin returns why the request is refused, and changes nothing.
func (s *Server) mayJoin(ctx context.Context, node record.Member, claim token.Claim) error {
	if err := token.Check(ctx, s.cfg.Client, claim); err != nil {
		return err
	}
	if err := quorum.NotRotating(ctx, s.cfg.Client); err != nil {
		return err
	}
	id, err := quorum.Find(ctx, s.cfg.Client, node)
	if err != nil || id != 0 {
		return err
	}
	presence, err := s.cfg.Client.Get(ctx, keyspace.Under(s.cfg.Client.Prefix()).Presence(node.Node), clientv3.WithCountOnly())
	if err == nil && presence.Count > 0 {
		return &refusal{conflict, http.StatusServiceUnavailable, fmt.Sprintf(
			"another sidecar with the node ID %q is alive, or was a moment ago; if it does not stop, give the joining node another --node-id", node.Node)}
	}
	return err
}

// sign answers a node that was added. It does not get the key of the CA: it does not vote yet.
func (s *Server) sign(ctx context.Context, in request, added quorum.Added) ([]byte, error) {
	ca, err := s.authority(ctx)
	if err != nil {
		return nil, err
	}
	cert, err := ca.Issue(in.CertificateRequest, in.Node, in.Address)
	if err != nil {
		return nil, err
	}
	out := answer{
		Cluster: added.Cluster.ID, EtcdClusterID: keyspace.MemberID(added.Cluster.EtcdClusterID), MemberID: keyspace.MemberID(added.ID),
		CACertificate: string(ca.CertPEM()), Certificate: string(cert), Members: []answerMember{},
	}
	for _, m := range added.Members {
		out.Members = append(out.Members, answerMember{
			ID: keyspace.MemberID(m.ID), Name: m.Name, Learner: m.Learner,
			PeerURL: cmp.Or(m.PeerURLs...), ClientURL: cmp.Or(m.ClientURLs...),
		})
	}
	return json.Marshal(out)
}

// newToken is the remedy where a person needs another token for a node.
func newToken(node protocol.NodeID) string {
	return fmt.Sprintf("create another one on a member: sidecar cluster token create --node %s", node)
}

// explain turns an error into a refusal with the status that the joining node needs, and
// with the remedy. Any other error names the endpoints of etcd, and the client may not hold
// a valid token: only the log gets it.
func explain(err error, node protocol.NodeID) error {
	is := func(target error) bool { return errors.Is(err, target) }
	_, inUse := errors.AsType[*quorum.InUseError](err)
	switch {
	case is(token.ErrUnknown), is(token.ErrSecret):
		return &refusal{wrongToken, http.StatusUnauthorized, err.Error() + "; " + newToken(node)}
	case is(token.ErrOtherKey):
		return &refusal{wrongToken, http.StatusForbidden, err.Error() + ": its data directory was emptied after that; remove the node on a member (sidecar cluster remove), and " + newToken(node)}
	case is(token.ErrOtherNode):
		return &refusal{wrongToken, http.StatusForbidden, err.Error() + "; check --node-id and --node-address, or " + newToken(node)}
	case slices.ContainsFunc([]error{token.ErrRevoked, token.ErrExpired, token.ErrUsed}, is):
		return &refusal{wrongToken, http.StatusForbidden, err.Error() + "; " + newToken(node)}
	case inUse:
		return &refusal{conflict, http.StatusConflict, err.Error()}
	case is(quorum.ErrRemoved):
		return &refusal{conflict, http.StatusGone, err.Error()}
	case is(quorum.ErrNoCluster):
		return &refusal{unavailable, http.StatusServiceUnavailable, "the cluster is still being created"}
	case is(quorum.ErrWait), is(quorum.ErrBusy), is(quorum.ErrRotating):
		return &refusal{unavailable, http.StatusServiceUnavailable, err.Error()}
	}
	if _, already := errors.AsType[*refusal](err); already {
		return err
	}
	return fmt.Errorf("this member does not reach a majority of the cluster: %w", err)
}

package token

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/sorting"
	"github.com/lockstep-dev/lockstep/keyspace"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Stored is a token as etcd stores it.
type Stored struct {
	ID      string
	Created time.Time
	Expires time.Time
	Uses    int // how many nodes may join with it
	UsedBy  []Use
	Revoked bool
	Corrupt bool // the value makes no sense: no node can join with it
	// Node is the only node that may use it; empty: any. Address is the only IP address at
	// which that node may join; empty: any.
	Node    protocol.NodeID
	Address string

	secret   pki.Hash
	revision int64
}

// Use binds a use of a token to a node and to the node's key.
type Use struct {
	Node protocol.NodeID
	Key  pki.Hash // of the node's public key
	At   time.Time
}

// State is the state of a token.
type State string

// The states.
const (
	Valid   State = "valid"
	Used    State = "used" // no uses are left
	Expired State = "expired"
	Revoked State = "revoked"
	Corrupt State = "corrupt"
)

// State returns the token's state at a time.
func (s Stored) State(now time.Time) State {
	switch {
	case s.Corrupt:
		return Corrupt
	case s.Revoked:
		return Revoked
	case !now.Before(s.Expires):
		return Expired
	case s.UsesLeft() == 0:
		return Used
	}
	return Valid
}

// UsesLeft returns how many more nodes may join with the token, if it is valid.
func (s Stored) UsesLeft() int { return max(0, s.Uses-len(s.UsedBy)) }

// Limits of a token.
const (
	MaxTTL  = 30 * 24 * time.Hour
	MaxUses = 100
	// keep is how long an expired token is still shown, and named by errors.
	keep = 24 * time.Hour
)

// Spec describes a token to create.
type Spec struct {
	CA   pki.Hash // of the public key of the cluster's CA
	TTL  time.Duration
	Uses int
	// Node binds the token to the node with that ID; empty: it is for any node. Address
	// binds it to an IP address of that node too; empty: to none.
	Node    protocol.NodeID
	Address string
}

// Validate returns an error about the lifetime, the number of uses or the binding.
func (s Spec) Validate() error {
	switch {
	case s.TTL < time.Second || s.TTL > MaxTTL:
		return fmt.Errorf("the lifetime %s of a token must be from 1s to %s", s.TTL, MaxTTL)
	case s.Uses < 1 || s.Uses > MaxUses:
		return fmt.Errorf("a token must have from 1 to %d uses, not %d", MaxUses, s.Uses)
	}
	return s.validateBinding()
}

func (s Spec) validateBinding() error {
	switch ip, err := netip.ParseAddr(s.Address); {
	case s.Node == "" && s.Address != "":
		return errors.New("a token for an address must be for a node too: add --node")
	case s.Node == "":
		return nil
	case !record.IsNodeID(string(s.Node)):
		return fmt.Errorf("--node: %.100q is not a node ID, which is a DNS subdomain", s.Node)
	case s.Uses != 1:
		return fmt.Errorf("a token for node %q has one use, not %d: create one for each node", s.Node, s.Uses)
	case s.Address != "" && (err != nil || ip.Zone() != "" || ip.Unmap().String() != s.Address):
		return fmt.Errorf("--address: %.100q is not an IP address such as 10.0.0.2", s.Address)
	}
	return nil
}

// Create creates a token and returns it: only a hash of its secret is stored. It
// deletes tokens that expired more than a day ago.
func Create(ctx context.Context, client *etcd.Client, spec Spec) (Token, Stored, error) {
	if err := spec.Validate(); err != nil {
		return Token{}, Stored{}, err
	}
	keys := keyspace.Under(client.Prefix())
	for {
		t, now := newToken(spec.CA), time.Now().UTC().Truncate(time.Second)
		s := Stored{
			ID: t.ID, Created: now, Expires: now.Add(spec.TTL), Uses: spec.Uses,
			Node: spec.Node, Address: spec.Address, secret: t.Secret.Hash(),
		}
		key := keys.JoinToken(t.ID)
		txn, err := client.Txn(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(key, string(encode(s)))}, nil)
		if err != nil {
			return Token{}, Stored{}, fmt.Errorf("create a token: %w", err)
		}
		if txn.Succeeded { // the ID is new
			return t, s, deleteOld(ctx, client, now)
		}
	}
}

func deleteOld(ctx context.Context, client *etcd.Client, now time.Time) error {
	all, err := List(ctx, client)
	if err != nil {
		return err
	}
	keys := keyspace.Under(client.Prefix())
	for _, s := range all {
		if s.Corrupt || now.Before(s.Expires.Add(keep)) {
			continue
		}
		key := keys.JoinToken(s.ID)
		if _, err := client.Txn(ctx,
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", s.revision)},
			[]clientv3.Op{clientv3.OpDelete(key)}, nil); err != nil {
			return fmt.Errorf("delete the expired token %s: %w", s.ID, err)
		}
	}
	return nil
}

// List returns all tokens, the oldest first.
func List(ctx context.Context, client *etcd.Client) ([]Stored, error) {
	below := keyspace.Under(client.Prefix()).JoinTokens()
	resp, err := client.Get(ctx, below, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("list the tokens: %w", err)
	}
	var out []Stored
	for _, kv := range resp.Kvs {
		s := decode(strings.TrimPrefix(string(kv.Key), below), kv.Value)
		s.revision = kv.ModRevision
		out = append(out, s)
	}
	sorting.By(out, func(a, b Stored) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// Revoke makes a token useless, also for nodes that used it and try again. It
// returns ErrUnknown if there is no such token.
func Revoke(ctx context.Context, client *etcd.Client, id string) error {
	err := change(ctx, client, id, func(s Stored) (Stored, error) {
		s.Revoked = true
		return s, nil
	})
	if err != nil {
		return fmt.Errorf("revoke the token %s: %w", id, err)
	}
	return nil
}

// Claim is the request of a node to use a token.
type Claim struct {
	ID     string
	Secret Secret
	Node   protocol.NodeID
	// Address is the IP address at which the node joins.
	Address string
	Key     pki.Hash  // of the node's public key
	Now     time.Time // of the clock that decides whether the token is expired
}

// Check returns whether the claim would be accepted now: nil, or one of this
// package's errors. It changes nothing.
func Check(ctx context.Context, client *etcd.Client, c Claim) error {
	s, err := read(ctx, client, c.ID)
	if err != nil {
		return err
	}
	_, err = s.use(c)
	return err
}

// Consume uses the token for a node: it takes one use and binds it to the node's ID and
// key. The same node with the same key may do that again, for no other use, until the
// token is revoked: also after it expired, so that a join that was interrupted can be
// finished. Errors that say why the node may not join are this package's.
func Consume(ctx context.Context, client *etcd.Client, c Claim) error {
	return change(ctx, client, c.ID, func(s Stored) (Stored, error) { return s.use(c) })
}

// use returns the token after the claim. The secret is compared first: without it,
// nothing is learned of the token.
func (s Stored) use(c Claim) (Stored, error) {
	sent := c.Secret.Hash()
	if s.Corrupt {
		return s, ErrUnknown
	}
	if subtle.ConstantTimeCompare(sent[:], s.secret[:]) != 1 {
		return s, ErrSecret
	}
	if s.Revoked {
		return s, ErrRevoked
	}
	if err := s.mismatch(c); err != nil {
		return s, err
	}
	i := slices.IndexFunc(s.UsedBy, func(u Use) bool { return u.Node == c.Node })
	switch {
	case i >= 0 && s.UsedBy[i].Key == c.Key:
		return s, nil
	case !c.Now.Before(s.Expires):
		return s, fmt.Errorf("%w: it was valid until %s, and the clock of the member that answers shows %s",
			ErrExpired, s.Expires.UTC().Format(time.RFC3339), c.Now.UTC().Format(time.RFC3339))
	case i >= 0:
		return s, ErrOtherKey
	case s.UsesLeft() == 0:
		return s, ErrUsed
	}
	s.UsedBy = append(slices.Clone(s.UsedBy), Use{Node: c.Node, Key: c.Key, At: c.Now.UTC()})
	return s, nil
}

// mismatch returns why a token that is bound to a node is not for the claim.
func (s Stored) mismatch(c Claim) error {
	switch {
	case s.Node != "" && c.Node != s.Node:
		return fmt.Errorf("%w: it is for node %q, and this node is %q", ErrOtherNode, s.Node, c.Node)
	case s.Address != "" && c.Address != s.Address:
		return fmt.Errorf("%w: it is for node %q at %s, and this node is at %s", ErrOtherNode, s.Node, s.Address, c.Address)
	}
	return nil
}

func read(ctx context.Context, client *etcd.Client, id string) (Stored, error) {
	resp, err := client.Get(ctx, keyspace.Under(client.Prefix()).JoinToken(id))
	switch {
	case err != nil:
		return Stored{}, err
	case len(resp.Kvs) == 0:
		return Stored{}, ErrUnknown
	}
	s := decode(id, resp.Kvs[0].Value)
	s.revision = resp.Kvs[0].ModRevision
	return s, nil
}

// change replaces a token by the result of f, on condition that it is as f got it. It
// tries again if it changed meanwhile.
func change(ctx context.Context, client *etcd.Client, id string, f func(Stored) (Stored, error)) error {
	return etcd.UntilUnchanged(ctx, func() error { return tryChange(ctx, client, id, f) })
}

func tryChange(ctx context.Context, client *etcd.Client, id string, f func(Stored) (Stored, error)) error {
	was, err := read(ctx, client, id)
	if err != nil {
		return err
	}
	now, err := f(was)
	if err != nil {
		return err
	}
	if string(encode(now)) == string(encode(was)) {
		return nil
	}
	key := keyspace.Under(client.Prefix()).JoinToken(id)
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", was.revision)
	_, err = client.Write(ctx, []clientv3.Cmp{unchanged}, clientv3.OpPut(key, string(encode(now))))
	return err
}

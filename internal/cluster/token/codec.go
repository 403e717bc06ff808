package token

import (
	"google.golang.org/protobuf/proto"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/lockstepv1"
	"github.com/lockstep-dev/lockstep/protocol"
)

func encode(s Stored) []byte {
	m := &lockstepv1.JoinToken{
		SecretHash: s.secret[:], CreatedAt: lockstepv1.FromTime(s.Created), ExpiresAt: lockstepv1.FromTime(s.Expires),
		Uses: int32(s.Uses), Revoked: s.Revoked,
	}
	if s.Node != "" {
		m.SecretHash = nil // older sidecars do not know the binding, and must refuse the token
		m.Bound = &lockstepv1.TokenBinding{Node: string(s.Node), Address: s.Address, SecretHash: s.secret[:]}
	}
	for _, u := range s.UsedBy {
		m.UsedBy = append(m.UsedBy, &lockstepv1.TokenUse{Node: string(u.Node), KeyHash: u.Key[:], At: lockstepv1.FromTime(u.At)})
	}
	return lockstepv1.Marshal(m) // node IDs are checked before
}

// decode returns a token that is worth nothing for bytes that make no sense: they
// must not let a node join.
func decode(id string, value []byte) Stored {
	var m lockstepv1.JoinToken
	out := Stored{ID: id}
	err := proto.Unmarshal(value, &m)
	secret := m.GetSecretHash()
	if m.GetBound() != nil {
		secret = m.GetBound().GetSecretHash()
		out.Node, out.Address = protocol.NodeID(m.GetBound().GetNode()), m.GetBound().GetAddress()
	}
	unbound := m.GetBound() != nil && out.Node == ""
	if err != nil || unbound || len(secret) != len(pki.Hash{}) || !m.GetExpiresAt().IsValid() {
		out.Corrupt = true
		return out
	}
	out.secret = pki.Hash(secret)
	out.Created, out.Expires = lockstepv1.ToTime(m.GetCreatedAt()), lockstepv1.ToTime(m.GetExpiresAt())
	out.Uses, out.Revoked = int(m.GetUses()), m.GetRevoked()
	for _, u := range m.GetUsedBy() {
		if len(u.GetKeyHash()) != len(pki.Hash{}) {
			out.Corrupt = true
			return out
		}
		use := Use{Node: protocol.NodeID(u.GetNode()), Key: pki.Hash(u.GetKeyHash()), At: lockstepv1.ToTime(u.GetAt())}
		out.UsedBy = append(out.UsedBy, use)
	}
	return out
}

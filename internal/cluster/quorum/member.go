package quorum

import (
	"crypto/x509"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
)

// NewMember returns the record of a node's member, made from the marker of its
// data directory and its certificate, without the time when it was added.
func NewMember(id uint64, m datadir.Marker, cert *x509.Certificate) record.Member {
	return record.Member{
		ID: id, Node: protocol.NodeID(m.Node), Address: m.Address,
		PeerURL: m.PeerURL(), ClientURL: m.ClientURL(), JoinURL: m.JoinURL(),
		Key: pki.HashOf(cert), Serial: cert.SerialNumber.Text(16),
	}
}

package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/lockstep-dev/lockstep/internal/durable"
)

// Intent is the purpose of the directory.
type Intent string

// The intents.
const (
	Create  Intent = "create"  // a new cluster
	Join    Intent = "join"    // a cluster of other nodes
	Restore Intent = "restore" // a cluster made of a snapshot
)

// Phase is the progress of the intent.
type Phase string

// The phases, in their order.
const (
	// Begun: no other node knows of this one, and etcd did not work yet as far as
	// is known.
	Begun Phase = "begun"
	// Enrolled: the cluster issued this node's certificate, and maybe added it.
	Enrolled Phase = "enrolled"
	// Member: this node was a working member. Its etcd directory is never made again.
	Member Phase = "member"
	// Removed: the cluster removed this node. The directory is of no use any more.
	Removed Phase = "removed"
)

// The phases of a node that was in its cluster, and whose roles changed
// (docs/protocol-membership.md#membership).
const (
	// Leaving: its member leaves, because the node lost the role.
	Leaving Phase = "leaving"
	// WithoutMember: it has credentials and no member. There is no data of etcd here.
	WithoutMember Phase = "without-member"
	// Adding: it becomes a member.
	Adding Phase = "adding"
)

// InCluster reports whether the directory contains the credentials of a node in its
// cluster, with a member or without one.
func (p Phase) InCluster() bool { return p == Member || p.Changing() || p == WithoutMember }

// Changing reports whether the node becomes a member, or leaves.
func (p Phase) Changing() bool { return p == Adding || p == Leaving }

// Marker says whose directory it is. It is one JSON file, which is replaced as a
// whole.
type Marker struct {
	Version int    `json:"version"` // of this form
	Cluster string `json:"cluster"` // a random UUID; etcd's initial cluster token
	CAHash  string `json:"caHash"`  // SHA-256 of the CA's public key, in hexadecimal; empty: not known yet

	Node       string `json:"node"`    // its node ID
	Address    string `json:"address"` // the IP at which other nodes reach it
	PeerPort   int    `json:"peerPort"`
	ClientPort int    `json:"clientPort"`
	JoinPort   int    `json:"joinPort"`

	Intent Intent `json:"intent"`
	Phase  Phase  `json:"phase"`
	// The IDs that etcd gave to the cluster and to this member, in hexadecimal;
	// empty: not known yet.
	EtcdClusterID string `json:"etcdClusterID"`
	MemberID      string `json:"memberID"`
	// Restores counts how often the cluster was restored from a snapshot.
	Restores int `json:"restores"`
	// Revision is the one at which the last restored store began; 0: there was none, or an older program
	// restored it.
	Revision int64 `json:"revision,omitempty"`
}

// NewClusterID returns a random UUID (version 4) for the marker of a new cluster.
func NewClusterID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

const (
	// markerVersion is the newest form that this program reads.
	markerVersion = 2
	// firstVersion is the form that it writes for the phases that an older program
	// understands: all that do not come from a change of roles.
	firstVersion = 1
)

// ReadMarker returns the marker of the directory; ErrNoMarker if there is none.
func (l Layout) ReadMarker() (Marker, error) {
	text, err := os.ReadFile(l.Marker())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Marker{}, ErrNoMarker
	case err != nil:
		return Marker{}, l.unreadable(l.Marker(), err)
	}
	return l.decodeMarker(text)
}

func (l Layout) decodeMarker(text []byte) (Marker, error) {
	var m Marker
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&m); err != nil {
		return Marker{}, &RefusedError{l.Marker(), "is damaged: " + err.Error(), l.restoreOrReplace(Marker{})}
	}
	if m.Version > markerVersion {
		return Marker{}, &RefusedError{
			l.Marker(), fmt.Sprintf("has version %d, and this sidecar understands version %d", m.Version, markerVersion),
			"start the newer sidecar that wrote it",
		}
	}
	if problem := m.problem(); problem != "" {
		return Marker{}, &RefusedError{l.Marker(), "is damaged: " + problem, l.restoreOrReplace(Marker{})}
	}
	return m, nil
}

// problem names a field that makes no sense; empty: there is none.
func (m Marker) problem() string {
	switch {
	case m.Version < 1:
		return "it has no version"
	case m.Node == "" || m.Address == "":
		return "it has no node or no address"
	case m.Cluster == "" && (m.Intent != Join || m.Phase != Begun): // a node that joins learns the cluster later
		return "it has no cluster"
	case !slices.Contains([]Intent{Create, Join, Restore}, m.Intent):
		return fmt.Sprintf("it has the unknown intent %q", m.Intent)
	case !slices.Contains([]Phase{Begun, Enrolled, Member, Removed, Leaving, WithoutMember, Adding}, m.Phase):
		return fmt.Sprintf("it has the unknown phase %q", m.Phase)
	case m.Phase == Member && (m.EtcdClusterID == "" || m.MemberID == ""):
		return "it has no IDs of etcd"
	}
	return ""
}

// WriteMarker replaces the marker. When it returns, the marker is on the disk.
func (d *Dir) WriteMarker(m Marker) error {
	m.Version = firstVersion
	if m.Phase.Changing() || m.Phase == WithoutMember {
		m.Version = markerVersion
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	if err := durable.WriteFile(d.Marker(), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	return nil
}

package enrol

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Path is where a member answers joins.
const Path = "/v1/cluster/join"

// request is the request of a joining node.
type request struct {
	Token      requestToken `json:"token"`
	Node       string       `json:"node"`
	Address    string       `json:"address"`
	PeerPort   int          `json:"peerPort"`
	ClientPort int          `json:"clientPort"`
	JoinPort   int          `json:"joinPort"`
	// CertificateRequest is DER. Only its public key is used.
	CertificateRequest []byte `json:"certificateRequest"`
}

type requestToken struct {
	ID     string `json:"id"`
	Secret []byte `json:"secret"`
}

// answer is the answer of a member.
type answer struct {
	Cluster       string `json:"cluster"`
	EtcdClusterID string `json:"etcdClusterID"`
	MemberID      string `json:"memberID"`
	CACertificate string `json:"caCertificate"`
	// CAKey is empty in the answers of this version to a join: a node gets it when it votes.
	// Older sidecars send it.
	CAKey       string `json:"caKey,omitempty"`
	Certificate string `json:"certificate"`

	Members []answerMember `json:"members"`
}

type answerMember struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	PeerURL   string `json:"peerURL"`
	ClientURL string `json:"clientURL"`
	Learner   bool   `json:"learner"`
}

// PathAuthority is where a voter gives other members the CA's key, and renews certificates.
const PathAuthority = "/v1/cluster/authority"

// authorityAnswer is the answer to a node with a certificate of the CA.
type authorityAnswer struct {
	CACertificate string `json:"caCertificate"`
	// CAKey is empty if the node is not a voter.
	CAKey string `json:"caKey,omitempty"`
	// Certificate is a new certificate, for the key, the name and the address in the one that the
	// node showed. Empty in an answer with the key of the CA that replaces the signing one.
	Certificate string `json:"certificate,omitempty"`
}

// member returns the node as a member's record without its key, or an error
// about the request.
func (r request) member() (record.Member, error) {
	if !record.IsNodeID(r.Node) {
		return record.Member{}, fmt.Errorf("node: %.100q is not a DNS subdomain; set --node-id on the joining node", r.Node)
	}
	ip, err := netip.ParseAddr(r.Address)
	if err != nil || ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" || ip.Unmap().String() != r.Address {
		return record.Member{}, fmt.Errorf("address: %.100q is not an IP address that other nodes can reach; set --node-address on the joining node", r.Address)
	}
	ports := []int{r.PeerPort, r.ClientPort, r.JoinPort}
	for i, port := range ports {
		if port < 1 || port > 65535 || port == ports[(i+1)%len(ports)] {
			return record.Member{}, errors.New("peerPort, clientPort and joinPort: must be three different ports")
		}
	}
	at := func(port int) string { return "https://" + net.JoinHostPort(r.Address, strconv.Itoa(port)) }
	return record.Member{
		Node: protocol.NodeID(r.Node), Address: r.Address,
		PeerURL: at(r.PeerPort), ClientURL: at(r.ClientPort), JoinURL: at(r.JoinPort),
	}, nil
}

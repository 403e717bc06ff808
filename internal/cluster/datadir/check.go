package datadir

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/shell"
)

// Expected describes this sidecar's member as its flags do.
type Expected struct {
	Node       string
	Address    string // empty: the marker's
	PeerPort   int    // 0: the marker's
	ClientPort int
}

// ReplaceNode names the commands that replace the node of a directory (docs/clusters.md#replace-a-node), for people: with the
// flags of this machine, as those of the others are mostly the same. m is the zero Marker if the directory has none.
func (l Layout) ReplaceNode(m Marker) string {
	dir, moved, node, remove := shell.Quote(string(l)), filepath.Clean(string(l)), "", ""
	if m.Node != "" {
		node = " --node " + shell.Quote(m.Node)
	}
	switch {
	case m.MemberID != "":
		remove = fmt.Sprintf("`sidecar cluster remove %s --data-dir=%s`, then ", m.MemberID, dir)
	case m.Node == "":
		remove = fmt.Sprintf("`sidecar cluster members --data-dir=%[1]s`, `sidecar cluster remove` with the ID of this one, then ", dir)
	}
	return fmt.Sprintf("replace this node: on another one type %s`sidecar cluster token create%s --data-dir=%s`; "+
		"here stop the sidecar, type `mv %s %s`, then what `token create` printed, with the other flags of this sidecar: docs/clusters.md#replace-a-node",
		remove, node, dir, shell.Quote(moved), shell.Quote(moved+".old"))
}

func (l Layout) restoreOrReplace(m Marker) string {
	return "restore it from a backup; without one, " + l.ReplaceNode(m)
}

// authorityRemedy returns the remedy for a bad or missing file of the CA: each
// member keeps the same file.
func (l Layout) authorityRemedy(m Marker) string {
	return fmt.Sprintf("copy %q and %q from another member, which has the same, or restore them from a backup; without either, %s",
		l.CACert(), l.CAKey(), l.ReplaceNode(m))
}

// remedyOf returns the remedy for a file that is wrong.
func (l Layout) remedyOf(path string, m Marker) string {
	if path == l.CACert() || path == l.CAKey() {
		return l.authorityRemedy(m)
	}
	return l.restoreOrReplace(m)
}

// replaceRemedy returns the remedy for lost data of etcd. An old copy of the data
// must not be used: other members rely on the entries that this one acknowledged.
func (l Layout) replaceRemedy(m Marker) string {
	return "an old copy of the directory must not be used; " + l.ReplaceNode(m)
}

// OldCopy returns the refusal of a directory whose etcd misses entries that this member acknowledged.
func (l Layout) OldCopy(m Marker) error {
	return &RefusedError{l.Etcd(), "is an older copy: it misses entries that this member had acknowledged", l.replaceRemedy(m)}
}

// Check compares an existing directory with its marker, and the marker with the
// flags. It only reads.
func (l Layout) Check(m Marker, want Expected) error {
	if m.Phase == Removed {
		return &RefusedError{
			string(l), fmt.Sprintf("is that of a member that was removed from its cluster (%s)", m.Cluster),
			fmt.Sprintf("to join again, delete %q and start with a new token; to see the members, type `sidecar cluster members` on one of them", string(l)),
		}
	}
	for _, check := range []func() error{
		l.checkModes,
		func() error { return l.checkMarker(m, want) },
		func() error { return l.checkCertificates(m) },
		func() error { return l.checkEtcd(m) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkModes refuses files and directories that other users can read or change.
func (l Layout) checkModes() error {
	for _, f := range []struct {
		path      string
		forbidden fs.FileMode
		mode      string
	}{
		{string(l), others, "700"},
		{l.PKI(), others, "700"},
		{l.Etcd(), others, "700"},
		{l.Marker(), 0o022, "600"},
		{l.CAKey(), others, "600"},
		{l.NextKey(), others, "600"},
		{l.NodeKey(), others, "600"},
		{l.CACert(), 0o022, "644"},
		{l.NodeCert(), 0o022, "644"},
	} {
		info, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // other checks decide whether it must exist
		case err != nil:
			return l.unreadable(f.path, err)
		}
		if mode := info.Mode().Perm(); mode&f.forbidden != 0 {
			return &RefusedError{
				f.path, fmt.Sprintf("has the mode %#o: other users may have read or changed it", mode),
				fmt.Sprintf("if they did not, type: chmod %s %s", f.mode, f.path),
			}
		}
	}
	return nil
}

// checkMarker compares the marker with the flags.
func (l Layout) checkMarker(m Marker, want Expected) error {
	dir := string(l)
	otherDir := "or give this sidecar a directory of its own with --data-dir"
	moved := "; to give it another address, " + l.ReplaceNode(m)
	if m.Intent == Join && m.Phase == Begun { // no other node knows it
		otherDir = "or delete the directory, since this node has not joined a cluster yet"
		moved = ", " + otherDir
	}
	switch {
	case want.Node != m.Node:
		return &RefusedError{
			dir, fmt.Sprintf("is that of node %q, and this sidecar is node %q", m.Node, want.Node),
			fmt.Sprintf("start it with --node-id=%s, %s", m.Node, otherDir),
		}
	case want.Address != "" && want.Address != m.Address:
		return &RefusedError{
			dir, fmt.Sprintf("is that of a member at %s, and --node-address is %s", m.Address, want.Address),
			fmt.Sprintf("start it with --node-address=%s%s", m.Address, moved),
		}
	case want.PeerPort != 0 && want.PeerPort != m.PeerPort:
		return l.otherPort("peer-port", m.PeerPort, want.PeerPort)
	case want.ClientPort != 0 && want.ClientPort != m.ClientPort:
		return l.otherPort("client-port", m.ClientPort, want.ClientPort)
	}
	return nil
}

func (l Layout) otherPort(flag string, has, want int) error {
	return &RefusedError{
		string(l), fmt.Sprintf("is that of a member with --%s=%d, and this sidecar has %d", flag, has, want),
		fmt.Sprintf("start it with --%s=%d", flag, has),
	}
}

// checkCertificates requires all of a member's certificates and keys, and that they
// belong together. Their times do not count here: they are renewed later.
func (l Layout) checkCertificates(m Marker) error {
	if !m.Phase.InCluster() {
		return nil // the steps make missing files
	}
	for _, path := range []string{l.CACert(), l.NodeCert(), l.NodeKey()} { // only a voter keeps the CA's key
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			remedy := l.restoreOrReplace(m)
			if path == l.CACert() {
				remedy = "restore it from a backup, or copy it from another member, which has the same; without either, " + l.ReplaceNode(m)
			}
			return &RefusedError{path, "is missing", remedy}
		}
	}
	trusted, err := l.readCertificates(l.CACert(), m)
	if err != nil {
		return err
	}
	own, err := l.readCertificates(l.NodeCert(), m)
	if err != nil {
		return err
	}
	node := own[0]
	switch {
	case m.CAHash != "" && !slices.ContainsFunc(trusted, func(ca *x509.Certificate) bool { return pki.HashOf(ca).String() == m.CAHash }):
		return &RefusedError{l.CACert(), "is the CA of another cluster", l.authorityRemedy(m)}
	case !slices.ContainsFunc(trusted, func(ca *x509.Certificate) bool { return node.CheckSignatureFrom(ca) == nil }):
		return &RefusedError{l.NodeCert(), "was not issued by the CA in " + l.CACert(), l.authorityRemedy(m)}
	case node.VerifyHostname(m.Address) != nil:
		return &RefusedError{l.NodeCert(), "is not for the address " + m.Address, l.restoreOrReplace(m)}
	}
	if _, err := tls.LoadX509KeyPair(l.NodeCert(), l.NodeKey()); err != nil {
		return &RefusedError{l.NodeKey(), "is not the key of " + l.NodeCert() + ": " + reason(err), l.restoreOrReplace(m)}
	}
	return l.checkCAKey(trusted, m)
}

// checkCAKey requires that the key belongs to a CA that the node trusts. While the CA is
// replaced, it trusts two (docs/clusters.md#replace-the-ca).
func (l Layout) checkCAKey(trusted []*x509.Certificate, m Marker) (err error) {
	text, err := os.ReadFile(l.CAKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.unreadable(l.CAKey(), err)
	}
	for _, ca := range trusted {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
		if _, err = tls.X509KeyPair(block, text); err == nil {
			return nil
		}
	}
	return &RefusedError{l.CAKey(), "is not the key of " + l.CACert() + ": " + reason(err), l.authorityRemedy(m)}
}

// readCertificates returns the certificates of a file, at least one.
func (l Layout) readCertificates(path string, m Marker) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, l.unreadable(path, err)
	}
	for block, rest := pem.Decode(text); block != nil && block.Type == "CERTIFICATE"; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &RefusedError{path, "is damaged: " + strings.TrimPrefix(err.Error(), "x509: "), l.remedyOf(path, m)}
		}
		if _, is := cert.PublicKey.(*ecdsa.PublicKey); !is {
			return nil, &RefusedError{path, "has a key of another kind", l.remedyOf(path, m)}
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, &RefusedError{path, "has no PEM certificate", l.remedyOf(path, m)}
	}
	return all, nil
}

// PeerURL returns the URL of the member's peer port.
func (m Marker) PeerURL() string { return memberURL(m.Address, m.PeerPort) }

// ClientURL returns the URL of the member's client port.
func (m Marker) ClientURL() string { return memberURL(m.Address, m.ClientPort) }

// JoinURL returns the URL at which the node answers joins.
func (m Marker) JoinURL() string { return memberURL(m.Address, m.JoinPort) }

func memberURL(address string, port int) string {
	return "https://" + net.JoinHostPort(address, fmt.Sprint(port))
}

// Package pki makes and checks the certificate authority of a cluster, and the
// certificate and key of this node (docs/clusters.md). It owns the files of one
// directory:
//
//	ca.crt       the certificates of the authorities that this node trusts: first the one
//	             that signs, and while it is being replaced, another one
//	ca.key       its private key; a node gets it when it votes
//	ca-next.key  the private key of the authority that replaces it
//	node.crt     this node's certificate, as server and as client
//	node.key     its private key
//
// A node's key is created once and never replaced, and a certificate is replaced by a rename.
// So a certificate always matches its key, even if the program ends between any two
// writes, and even for a reader that opens the two files at different times, as etcd
// does at each handshake.
//
// It starts no goroutine.
package pki

import "time"

const (
	// caLife is how long the authority's certificate is valid.
	caLife = 10 * 365 * 24 * time.Hour
	// leafLife is how long a node's certificate is valid.
	leafLife = 365 * 24 * time.Hour
	// backdate is how long before its creation a certificate becomes valid, so that a
	// machine whose clock is late accepts it.
	backdate = 24 * time.Hour
)

// The files of the directory.
const (
	CACertFile   = "ca.crt"
	CAKeyFile    = "ca.key"
	NextKeyFile  = "ca-next.key"
	NodeCertFile = "node.crt"
	NodeKeyFile  = "node.key"
)

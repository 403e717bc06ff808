// Package token has the tokens that let nodes join a cluster (docs/clusters.md#tokens).
// It owns their text, and what is stored of them in etcd.
//
// The text carries what the joining node needs to recognize the cluster, the hash of
// its CA's public key, and a secret. Only a hash of the secret is stored. A checksum
// in the text finds typing errors before anything is sent.
//
// Every change of a stored token is a transaction on condition that the token is as it
// was read. So the last use is never given to two nodes. Whether a token has expired
// is decided by the clock of the sidecar that answers the join, never by that of the
// joining node.
//
// It starts no goroutine.
package token

// Package token creates, stores and checks the tokens that let nodes join a cluster
// (docs/clusters.md#tokens). It owns their text, and their values in etcd.
//
// The text carries a secret, and the hash of the CA's public key, by which the
// joining node recognizes the cluster. Only a hash of the secret is stored. A
// checksum in the text finds typing errors before anything is sent.
//
// Every change of a stored token is a transaction on condition that the token is as it
// was read. So the last use is never given to two nodes. The clock of the sidecar that
// answers the join decides whether a token is expired, never the clock of the joining
// node.
//
// It starts no goroutine.
package token

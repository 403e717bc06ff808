// Package enrol implements both sides of the request by which a node joins a
// cluster (docs/clusters.md#join): POST /v1/cluster/join on the join port of a
// member.
//
// The joining node sends its token's secret only after it verified, in the same
// connection, that the server's certificate is signed by the CA whose hash is in the
// token. The member checks the token, adds the node to etcd as a learner, and answers
// with a certificate, the CA's, and the members. The same request of the same node,
// with the same key, gets the same answer again, so each side may be killed at any
// time.
//
// A node that votes gets the key of the CA from another voter, at the same port and with its
// certificate: POST /v1/cluster/authority. A voter also renews the certificate of a node
// without the key there.
//
// The server limits requests by the client's address and in all: before the TLS
// handshake by closing connections, and before any request to etcd with status 429.
//
// Server.Run starts the goroutines of net/http, and waits until the open requests end.
package enrol

// Package front serves the ports of an etcd member
// (docs/adr/0024-strangers-have-an-allowance.md#etcd): a TLS server that asks for a certificate of the cluster's
// CA, refuses a stranger before that costs much, and passes all bytes of others to etcd, which serves plain HTTP at
// Unix sockets. All ports of a member share one allowance.
//
// A Port starts a goroutine that accepts connections, and two for each connection. Close waits for them.
package front

// Package ports opens the ports of an etcd member (docs/adr/0024-strangers-have-an-allowance.md#etcd): etcd's servers
// get only connections whose client showed a certificate of the cluster's CA. A stranger is refused before that costs
// much, and strangers of all ports share one allowance. A client at the address of a node waits for no stranger.
// Package ports owns the file with the addresses of nodes.
//
// A Port starts a goroutine that accepts connections, and one for each handshake. Close waits for them.
package ports

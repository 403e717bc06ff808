// Package role makes what a node runs follow from its roles
// (docs/protocol.md#services). Its workers share facts by event values; each value has
// one writer:
//
//	record in etcd ──> Fetcher ──> Local ──┐
//	      disk <──────────┘                ├──> Kubernetes ──> Facts ────> registrar
//	verdict, election, services ───────────┘        │ └──────> Withheld ─> gate
//	                                                 └ starts and stops the services
//
// Fetcher keeps the roles: those in the node's record, and while etcd does not answer,
// the last ones, which are on disk. Kubernetes starts and stops the services of the
// controller role. The package decides nothing about the order of these:
// protocol.NextServiceStep does.
package role

// Package fleet owns the node records and presences in etcd (DESIGN 4.2, 4.3,
// 4.9). It registers this node and keeps its record true (Registrar), says that
// it is alive (Presence), and follows all records (Follower). What a record
// means is decided in package protocol.
//
// Each Run waits for the goroutines that it starts, and ends with its context.
package fleet

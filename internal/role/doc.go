// Package role starts and stops a node's services and its etcd member according to its roles
// (docs/protocol.md#services). Its workers share facts by event values. Each value has one writer:
//
//	value                    written by  read by
//	Fetcher.Local            Fetcher     Kubernetes, follower, ControlPlane, caller
//	Fetcher.First            Fetcher     Registrar
//	Supervised.Of            Supervised  Kubernetes, follower
//	Supervised.State         Supervised  caller, roles
//	Kubernetes.Facts         Kubernetes  Registrar
//	Kubernetes.Withheld      Kubernetes  Gate, election, caller
//	Registrar.Registration   Registrar   Gate
//	Server.Loaded            Server      Supervised, caller
//	Server.Problem           Server      caller
//	Server.Pending           Server      caller
//	Server.changing          Server      Kubernetes
//	Disk.Roles               Fetcher     Fetcher
//	Disk.StartedFor          Kubernetes  Kubernetes
//	Disk.Started             Supervised  Supervised
//	RegistrarConfig.Fleet    caller      Fetcher
//	RegistrarConfig.Presence caller      Kubernetes
//	ServerConfig.Variables   caller      Supervised, roles
//	ServerConfig.Turn        caller      roles
//	ServerConfig.Displayed   caller      Kubernetes, roles
//	ServerConfig.Leads       caller      Kubernetes
//	ServerConfig.Published   caller      Kubernetes, Server
//	ServerConfig.Member      caller      ControlPlane
//
// Fetcher reads the roles from the node's record and keeps them on disk: they are used while etcd
// does not answer. First returns the roles for a new record. Kubernetes starts and stops the
// services of the controller role, and a follower the services of another role. Supervised runs the
// processes of both; Of follows whether the services of a role run. Registrar and Gate are types of
// packages fleet and status. The package does not decide the order of steps:
// nodeservices.Next and membership.NextStep do.
//
// ControlPlane starts and stops the node's etcd member. It writes no value here: the Member
// publishes how to reach etcd (cluster.Membership), and the caller computes Variables from it. The
// election runs only while Withheld is empty: Server wraps it.
//
// A worker of roles reads the services directory and passes changes to Supervised. A change that
// needs a turn (nodeservices.JudgeRestart) waits until Turn reports one.
//
// Server wires the workers, and starts and stops a node in order. A node without services takes the
// same path: its list of services is empty, and counts as ready.
package role

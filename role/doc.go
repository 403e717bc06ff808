// Package role makes what a node runs follow from its roles
// (docs/protocol.md#services). Its workers share facts by event values. Each value has one
// writer:
//
//	value                    written by  read by
//	Fetcher.Local            Fetcher     Kubernetes, follower, ControlPlane, caller
//	Fetcher.First            Fetcher     Registrar
//	Supervised.Of            Supervised  Kubernetes, follower
//	Supervised.State         Supervised  caller, Server, roles
//	Kubernetes.Facts         Kubernetes  Registrar
//	Kubernetes.Withheld      Kubernetes  Gate, election, caller
//	Registrar.Registration   Registrar   Gate
//	Server.Loaded            Server      Supervised, caller
//	Server.Problem           Server      caller
//	Server.Pending           Server      caller
//	Disk.Roles               Fetcher     Fetcher
//	Disk.StartedFor          Kubernetes  Kubernetes
//	Disk.Started             Supervised  Supervised
//	RegistrarConfig.Fleet    caller      Fetcher
//	RegistrarConfig.Presence caller      Kubernetes
//	ServerConfig.Variables   caller      Supervised, Server
//	ServerConfig.Turn        caller      roles
//	ServerConfig.Displayed   caller      Kubernetes, roles
//	ServerConfig.Leads       caller      Kubernetes
//	ServerConfig.Published   caller      Kubernetes, Server
//	ServerConfig.Member      caller      ControlPlane
//
// Fetcher keeps the roles: those in the node's record, and while etcd does not answer,
// the last ones, which are on disk; First are those of a record that is created. Kubernetes
// starts and stops the services of the controller role, and follower those of another role;
// Supervised has the processes of both, and Of follows whether those of a role run.
// Registrar and Gate are those of packages fleet and status. The package decides nothing
// about the order of these: protocol.NextServiceStep and protocol.NextMemberStep do.
//
// ControlPlane has the member of etcd start and stop. It writes no value here: the Member
// publishes how to reach etcd (cluster.Membership), and the caller makes Variables of that.
// The election runs while Withheld is empty, in a wrapper that Server has.
//
// The worker of roles that has the services directory gives Supervised what changes there, when the
// caller has a Turn for it, if it needs one (protocol.JudgeRestart).
//
// Server wires them, and starts and stops a node in order. There is one path: a node
// without services has an empty list of them, of which all are ready.
package role

// Package role makes what a node runs follow from its roles
// (docs/protocol.md#services). Its workers share facts by event values. Each value has one
// writer:
//
//	value                    read by
//	Fetcher.Local         -> Kubernetes, follower, ControlPlane
//	Fetcher.First         -> Registrar
//	Supervised.Of         -> Kubernetes, follower
//	Kubernetes.Facts      -> Registrar
//	Kubernetes.Withheld   -> Gate
//	Registrar.Registration -> Gate
//	RegistrarConfig.Presence -> Kubernetes
//	Server.disk           -> Fetcher, Kubernetes
//	Server.loaded         -> Supervised
//	ServerConfig.Variables -> Supervised
//	ServerConfig.Displayed -> Kubernetes
//	ServerConfig.Leads    -> Kubernetes
//
// Fetcher keeps the roles: those in the node's record, and while etcd does not answer,
// the last ones, which are on disk; First are those of a record that is created. Kubernetes
// starts and stops the services of the controller role, and follower those of another role;
// Supervised has the processes of both, and Of follows whether those of a role run.
// Registrar and Gate are those of packages fleet and status. ControlPlane has the member of
// etcd start and stop. The package decides nothing about the order of these:
// protocol.NextServiceStep and protocol.NextMemberStep do.
//
// Server wires them, and starts and stops a node in order. There is one path: a node
// without services has an empty list of them, of which all are ready.
package role

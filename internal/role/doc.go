// Package role starts and stops a node's services and its etcd member according to its roles
// (docs/protocol-nodes.md#services). Its workers share facts by event values. Each value has one writer:
//
//	value                    written by  read by
//	Fetcher.Local            Fetcher     Starter, ControlPlane, caller
//	Fetcher.First            Fetcher     Registrar
//	Supervised.Of            Supervised  Starter
//	Supervised.State         Supervised  caller, roles
//	Starter.Facts            Starter     Registrar
//	Starter.Withheld         Starter     Gate, election, caller
//	Registrar.Registration   Registrar   Gate
//	Server.Loaded            Server      Supervised, caller
//	Server.Problem           Server      caller
//	Server.changing          Server      Starter
//	Server.variables         Server      Supervised
//	Disk.Roles               Fetcher     Fetcher
//	Disk.StartedFor          Starter     Starter
//	Disk.Started             Supervised  Supervised
//	Gate.Shown               Gate        Starter, roles
//	RegistrarConfig.Fleet    caller      Fetcher
//	RegistrarConfig.Presence caller      Starter
//	ServicesConfig.Variables caller      roles
//	ElectionConfig.Leads     caller      Starter, Retirer
//	APIServerConfig.Published caller     Starter, Server
//	ServerConfig.Cluster     caller      ControlPlane, roles
//
// The gate and the services form a loop. A service stops only when clients see a closed gate, so the
// gate keeps what they see, beside what it decides:
//
//	verdict: Gate decides it (Gate.Verdict)
//	    -> rendered: the caller shows it at /readyz, and calls Gate.Show (Gate.Shown)
//	    -> services: a Starter starts or stops them (Starter.Facts, Starter.Withheld)
//	    -> registration: Registrar waits for the services (Registrar.Registration)
//	    -> verdict
//
// Fetcher reads the roles from the node's record and keeps them on disk: they are used while etcd
// does not answer. First returns the roles for a new record. A Starter starts and stops the
// services of one role: behind a closed gate for the controller role. Supervised runs the
// processes; Of follows whether the services of a role run. Registrar and Retirer are types of
// package fleet, and Gate is one of package status. The package does not decide the order of steps:
// nodeservices.Next and membership.NextStep do.
//
// ControlPlane starts and stops the node's etcd member. It writes no value here: the Member
// publishes how to reach etcd (cluster.Membership), and the caller computes Variables from it. The
// election runs only while Withheld is empty: Server wraps it.
//
// A worker of roles reads the services directory and the variables, and passes changes to Supervised. A change that
// needs a turn (nodeservices.JudgeRestart) waits for one: another worker of roles takes it, and ends it
// (package turns).
//
// Server wires the workers, and starts and stops a node in order. A node without services takes the
// same path: its list of services is empty, and counts as ready.
package role

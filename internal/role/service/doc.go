// Package service runs the services of a node's roles: the kube-apiserver, for example
// (docs/roles.md#services). It owns the services directory, the meaning of its files, and the
// supervisor that starts the services in order, keeps them running and stops them. A driver runs
// each service: packages process, systemd and staticpod. The caller knows the node's roles, and
// decides when services may run.
//
//	services directory -> Load -> []Service -> Expand -> Supervisor.Reload
//	Supervisor.Run: one worker for each service -> State, an event value
//
// Services start in the order of their file names, each once the one before it was ready, and stop
// in reverse order. A service that ends is started again after a pause. The pause grows, and is
// reset after a good run. No service takes another one down: each has its own worker, and a panic
// of its driver or probe counts as its end or as a failed probe.
//
// Run starts one goroutine for each service, one for its probe, and one that starts the processes.
// It waits for all of them.
package service

// Package service runs what a node runs for its roles: the kube-apiserver, for example
// (docs/roles.md#services). It owns the services directory, what its files mean, and the
// supervisor that starts the services in order, keeps them running and stops them. How a
// service is run is the business of its driver: packages process, systemd and staticpod.
// Which roles a node has, and when its services may run, is the business of the caller.
//
//	services directory -> Load -> []Service -> Expand -> Supervisor.Reload
//	Supervisor.Run: one worker for each service -> State, an event value
//
// Services start in the order of their file names, each when the one before it has been ready, and
// stop in the reverse order. A service that ends is started again after a pause, which grows and
// begins again after a good run. It takes no other service down: each has a worker of its own,
// and a panic of its driver or of its probe counts as its end.
//
// Run starts one goroutine for each service, one more for its probe, and one that starts the
// processes. It waits for all of them.
package service

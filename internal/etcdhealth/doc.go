// Package etcdhealth finds out what is wrong with etcd, for people: why it does not answer, that it is
// full, and servers of versions with known faults. It decides nothing: no gate and no leader depends
// on it. RunProblem and RunFaults block until their context ends, and no goroutine outlives them.
package etcdhealth

import (
	"log/slog"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/cluster"
)

// Config configures a Watch. All fields are required.
type Config struct {
	Client   *etcd.Client
	Cluster  *cluster.Manager
	Embedded bool // the sidecars run etcd
	Log      *slog.Logger
}

// Watch finds the problems of etcd.
type Watch struct {
	cfg     Config
	problem *event.Value[Problem]
	faults  *event.Value[[]string]
}

// New returns a Watch that asks nothing before it runs.
func New(cfg Config) *Watch {
	return &Watch{cfg: cfg, problem: event.New(Problem{}), faults: event.New[[]string](nil)}
}

// Problem follows the problem of etcd.
func (w *Watch) Problem() *event.Value[Problem] { return w.problem }

// Faults follows the servers with known faults, for people.
func (w *Watch) Faults() *event.Value[[]string] { return w.faults }

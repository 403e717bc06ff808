package app

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registries registers a sidecar's metrics for /metrics, and also in the registry of the program that
// embeds the sidecar. /metrics shows the metrics of Go and of the process too, which that program
// registers itself.
type registries struct {
	*prometheus.Registry
	program prometheus.Registerer // nil: the program wants none

	mu    sync.Mutex // mu guards the rest
	added []prometheus.Collector
	err   error // the program's registry rejected metrics
}

func newRegistries(program prometheus.Registerer) *registries {
	r := &registries{Registry: prometheus.NewRegistry(), program: program}
	r.Registry.MustRegister(collectors.NewGoCollector(), newProcess())
	return r
}

// Register registers c. An error of the program's registry is returned by Err alone, so that it ends
// New and not the program.
func (r *registries) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	if r.program == nil {
		return nil
	}
	err := r.program.Register(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = errors.Join(r.err, err)
		return nil
	}
	r.added = append(r.added, c)
	return nil
}

// MustRegister registers all collectors. It panics only if two of the sidecar's own collide.
func (r *registries) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister removes a collector from both. It reports whether the sidecar's own registry had it.
func (r *registries) Unregister(c prometheus.Collector) bool {
	if r.program != nil {
		r.program.Unregister(c)
	}
	return r.Registry.Unregister(c)
}

// Err returns why the program's registry rejected metrics; nil: it did not.
func (r *registries) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("the program's registry rejects the sidecar's metrics; if it runs several sidecars, wrap the registry with a label for each: %w", r.err)
}

// release takes the metrics out of the program's registry, so that its next sidecar can register them.
func (r *registries) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.added {
		r.program.Unregister(c)
	}
	r.added = nil
}

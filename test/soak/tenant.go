package soak

import (
	"context"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// tenantOf returns the tenant, who uses the kube-apiserver of a configuration.
func (w *world) tenantOf(ctx context.Context, api *rest.Config) (*cluster.Tenant, error) {
	cfg := rest.CopyConfig(api)
	cfg.Timeout = 3 * time.Second
	return cluster.NewTenantOf(ctx, cfg, cluster.TenantConfig{
		Kind: "ConfigMap", // the set contains objects of this kind too
		Annotations: func() map[string]string {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.edits++
			return map[string]string{editAnnotation: strconv.Itoa(w.edits)}
		},
		Deletes: w.rec.deletes,
	})
}

// disturbAsTenant creates, changes and deletes objects that look like the objects of the
// set, many times a second. Some of these requests are refused.
func (w *world) disturbAsTenant(ctx context.Context, f fault) outcome {
	limited, cancel := context.WithTimeout(ctx, f.lasts)
	defer cancel()
	x, err := w.tenantOf(limited, w.cluster.APIConfig("https://"+w.nodes[f.node].server.addr))
	if err != nil || x.Learn(limited) != nil {
		return skipped
	}
	accepted := 0
	for i := f.how; pause(limited, cluster.TenantPause); i++ {
		if x.Disturb(limited, i) == nil {
			accepted++
		}
	}
	if accepted == 0 {
		return skipped
	}
	return done
}

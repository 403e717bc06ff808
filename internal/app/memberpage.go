package app

import (
	"context"
	"errors"
)

// memberMetrics returns a function that reads the metrics of this node's etcd member; nil: etcd
// runs elsewhere.
func (p *parts) memberMetrics() func(context.Context) ([]byte, error) {
	if p.cfg.Embedded == nil {
		return nil
	}
	own := p.cfg.Etcd.Endpoints[0] // this node's own member: the client may use others
	return func(ctx context.Context) ([]byte, error) {
		if !p.cfg.Embedded.HasMember() {
			return nil, errors.New("this node has no etcd member")
		}
		return p.etcd.ServerMetrics(ctx, own)
	}
}

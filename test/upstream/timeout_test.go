package upstream

import (
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/config"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Relied on: etcd gives up a request after 5 s and twice its election timeout. The
// kube-apiserver's clients wait for MaxTimeout before that; the margin is a second.
func TestEtcd_requestTimeout(t *testing.T) {
	for _, election := range []time.Duration{500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 50 * time.Second} {
		server := config.ServerConfig{TickMs: 100, ElectionTicks: int(election / (100 * time.Millisecond))}
		want := kube.MaxTimeout + server.ReqTimeout() + time.Second
		if got := protocol.DrainTime(election); got < want {
			broken(t, "with an election timeout of "+election.String()+", etcd may take "+server.ReqTimeout().String(), "protocol.DrainTime")
		}
	}
}

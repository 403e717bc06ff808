package child

import (
	"fmt"
	"io"
	"net/url"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// config returns etcd's configuration.
func config(spec member.Spec, log *zap.Logger) (*embed.Config, error) {
	peer, err := url.Parse(spec.PeerURL)
	if err != nil {
		return nil, fmt.Errorf("etcd member: %w", err)
	}
	client, err := url.Parse(spec.ClientURL)
	if err != nil {
		return nil, fmt.Errorf("etcd member: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name = spec.Dir, spec.Name
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.InitialCluster, cfg.InitialClusterToken = spec.InitialCluster, spec.Token
	if spec.Existing {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	both := transport.TLSInfo{
		CertFile: spec.CertFile, KeyFile: spec.KeyFile, TrustedCAFile: spec.CAFile, ClientCertAuth: true,
	}
	cfg.ClientTLSInfo, cfg.PeerTLSInfo = both, both
	// Otherwise a peer is refused whose connection comes from another of its addresses
	// than the one in its certificate. Its certificate is verified all the same.
	cfg.PeerTLSInfo.SkipClientSANVerify = true
	cfg.TickMs, cfg.ElectionMs = uint(spec.Heartbeat.Milliseconds()), uint(spec.Election.Milliseconds())
	cfg.QuotaBackendBytes = spec.QuotaBytes
	cfg.BackendBatchInterval = member.DefaultCommit
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, member.DefaultCompaction.String()
	cfg.SnapshotCount = member.DefaultSnapshotCount
	cfg.MaxLearners = member.MaxLearners
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return cfg, nil
}

// removedMessage is etcd's log message when a peer, or its own log, reports that this
// member was removed. Nothing else does: it is the only use of etcd's channel for such
// errors.
const removedMessage = "data-dir used by this member must be removed"

// newLogger returns a logger that writes one line of JSON for each entry. It sets
// removed when etcd logs that the member was removed.
func newLogger(w io.Writer, level zapcore.Level, removed *atomic.Bool) *zap.Logger {
	encoder := zap.NewProductionEncoderConfig()
	encoder.StacktraceKey = ""
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(w)), level)
	return zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == removedMessage {
			removed.Store(true)
		}
		return nil
	}))
}

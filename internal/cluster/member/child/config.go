package child

import (
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3compactor"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
)

// Settings of etcd that are not in a Spec. They are the defaults of etcd's own program (TestConfig_likeEtcd).
const (
	maxSnapshots, maxLogs  = 5, 5
	maxTxnOps              = 128
	maxRequestBytes        = 3 << 19
	slowApply              = 100 * time.Millisecond
	slowRequest            = 300 * time.Millisecond
	tokenTTL, passwordCost = 300, 10
	downgradeCheck         = 5 * time.Second
	hashCheck              = time.Minute
	mostElection           = 50 * time.Second
	heartbeatsInElection   = 5
	anyHost                = "*"
	metricsKind, tokenKind = "basic", "simple"
)

// serverConfig returns etcd's configuration.
func serverConfig(spec member.Spec, log *zap.Logger) (config.ServerConfig, error) {
	none := config.ServerConfig{}
	if spec.Election < heartbeatsInElection*spec.Heartbeat || spec.Election > mostElection {
		return none, fmt.Errorf("etcd member: an election timeout of %s: want at least %d heartbeats of %s, and at most %s",
			spec.Election, heartbeatsInElection, spec.Heartbeat, mostElection)
	}
	peer, err := types.NewURLs([]string{spec.PeerURL})
	if err != nil {
		return none, fmt.Errorf("etcd member: %w", err)
	}
	client, err := types.NewURLs([]string{spec.ClientURL})
	if err != nil {
		return none, fmt.Errorf("etcd member: %w", err)
	}
	cfg := defaults()
	cfg.Name, cfg.DataDir, cfg.Logger = spec.Name, spec.Dir, log
	cfg.PeerURLs, cfg.ClientURLs = peer, client
	if !wal.Exist(datadir.ToWALDir(spec.Dir)) { // else its own data contains all that
		if cfg.InitialPeerURLsMap, err = types.NewURLsMap(spec.InitialCluster); err != nil {
			return none, fmt.Errorf("etcd member: the members of the cluster: %w", err)
		}
		cfg.InitialClusterToken = spec.Token
	}
	cfg.NewCluster = !spec.Existing
	// As a client of its peers. As a server, ports checks the certificates of peers, from whichever of a node's addresses
	// they connect.
	cfg.PeerTLSInfo = transport.TLSInfo{
		CertFile: spec.CertFile, KeyFile: spec.KeyFile, TrustedCAFile: spec.CAFile, ClientCertAuth: true, MinVersion: tls.VersionTLS12,
	}
	cfg.TickMs, cfg.ElectionTicks = uint(spec.Heartbeat.Milliseconds()), int(spec.Election.Milliseconds()/spec.Heartbeat.Milliseconds())
	cfg.QuotaBackendBytes = spec.QuotaBytes
	cfg.ServerFeatureGate = features.NewDefaultServerFeatureGate(spec.Name, log)
	return cfg, nil
}

// defaults are the same for all members.
func defaults() config.ServerConfig {
	return config.ServerConfig{
		SnapshotCount: member.DefaultSnapshotCount, SnapshotCatchUpEntries: etcdserver.DefaultSnapshotCatchUpEntries,
		MaxSnapFiles: maxSnapshots, MaxWALFiles: maxLogs,
		BackendBatchInterval: member.DefaultCommit, BackendFreelistType: bbolt.FreelistMapType,
		AutoCompactionMode: v3compactor.ModePeriodic, AutoCompactionRetention: member.DefaultCompaction,
		CORS: map[string]struct{}{anyHost: {}}, HostWhitelist: map[string]struct{}{anyHost: {}},
		InitialElectionTickAdvance: true, PreVote: true, StrictReconfigCheck: true, ClientCertAuthEnabled: true,
		MaxTxnOps: maxTxnOps, MaxRequestBytes: maxRequestBytes, MaxConcurrentStreams: math.MaxUint32,
		WarningApplyDuration: slowApply, WarningUnaryRequestDuration: slowRequest,
		AuthToken: tokenKind, BcryptCost: passwordCost, TokenTTL: tokenTTL,
		CompactHashCheckTime: hashCheck, DowngradeCheckTime: downgradeCheck,
		MaxLearners: member.MaxLearners, V2Deprecation: config.V2DeprDefault, Metrics: metricsKind,
	}
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

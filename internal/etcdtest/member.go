package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/member/stopguard"
)

// MemberConfig describes one member of a cluster of several, with TLS for peers and
// clients. All fields except Existing are required.
type MemberConfig struct {
	Dir, Name          string
	PeerURL, ClientURL string
	InitialCluster     string // NAME=PEERURL,...
	Existing           bool   // the member was added to a cluster that runs
	Token              string // of the cluster

	CAFile, CertFile, KeyFile string
}

// Member is an etcd member that runs in this process.
type Member struct{ etcd *embed.Etcd }

// Members of several processes share two cores with everything else: slower than etcd's
// default, so that no election is lost.
const (
	memberHeartbeat = 50   // ms
	memberElection  = 1000 // ms
	maxLearners     = 2
)

// StartMember starts a member. It does not wait for a leader.
func StartMember(cfg MemberConfig) (*Member, error) {
	peer, err := url.Parse(cfg.PeerURL)
	if err != nil {
		return nil, err
	}
	client, err := url.Parse(cfg.ClientURL)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Dir, c.Name = cfg.Dir, cfg.Name
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.InitialCluster, c.InitialClusterToken = cfg.InitialCluster, cfg.Token
	if cfg.Existing {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.TickMs, c.ElectionMs, c.MaxLearners = memberHeartbeat, memberElection, maxLearners
	c.UnsafeNoFsync, c.EnableGRPCGateway = true, false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	info := transport.TLSInfo{
		CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, TrustedCAFile: cfg.CAFile, ClientCertAuth: true, SkipClientSANVerify: true,
	}
	c.PeerTLSInfo, c.ClientTLSInfo = info, info
	var guard stopguard.Guard
	c.GRPCAdditionalServerOptions = guard.Options()
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd member %s: %w", cfg.Name, err)
	}
	guard.Watch(etcd.Server)
	return &Member{etcd}, nil
}

// ID returns the member's ID.
func (m *Member) ID() uint64 { return uint64(m.etcd.Server.MemberID()) }

// ClusterID returns the ID of its cluster.
func (m *Member) ClusterID() uint64 { return uint64(m.etcd.Server.Cluster().ID()) }

// AwaitReady waits until the member has been part of a quorum.
func (m *Member) AwaitReady(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-m.etcd.Server.StopNotify():
		return errors.New("the etcd member stopped before it was ready")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopped is closed when the member has stopped, as a removed member does.
func (m *Member) Stopped() <-chan struct{} { return m.etcd.Server.StopNotify() }

// Stop ends the member, also one that was never ready.
func (m *Member) Stop() {
	select {
	case <-m.etcd.Server.ReadyNotify():
	default: // it serves nothing, and Close would wait until it does
		m.etcd.Server.Stop()
	}
	m.etcd.Close()
}

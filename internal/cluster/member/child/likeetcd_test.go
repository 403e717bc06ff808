package child

import (
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/member"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

// embedded returns the configuration that etcd's own package makes of a Spec.
func embedded(t *testing.T, spec member.Spec) config.ServerConfig {
	t.Helper()
	urls := func(text string) []url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []url.URL{*u}
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name = spec.Dir, spec.Name
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(spec.PeerURL), urls(spec.PeerURL)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(spec.ClientURL), urls(spec.ClientURL)
	cfg.InitialCluster, cfg.InitialClusterToken = spec.InitialCluster, spec.Token
	both := transport.TLSInfo{CertFile: spec.CertFile, KeyFile: spec.KeyFile, TrustedCAFile: spec.CAFile, ClientCertAuth: true}
	cfg.ClientTLSInfo, cfg.PeerTLSInfo = both, both
	cfg.TickMs, cfg.ElectionMs = uint(spec.Heartbeat.Milliseconds()), uint(spec.Election.Milliseconds())
	cfg.QuotaBackendBytes = spec.QuotaBytes
	cfg.BackendBatchInterval = member.DefaultCommit
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, member.DefaultCompaction.String()
	cfg.SnapshotCount, cfg.MaxLearners = member.DefaultSnapshotCount, member.MaxLearners
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return e.Server.Cfg
}

// A new version of etcd may bring new settings, or other defaults: each field is like in the configuration that etcd's
// package embed makes, which we do not use.
func TestConfig_likeEtcd(t *testing.T) {
	dir := t.TempDir()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.WriteCA(dir, ca); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, ca, "a", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = etcdtest.FreeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	spec := member.Spec{
		Dir: filepath.Join(dir, "etcd"), Name: "a", PeerURL: "https://" + addresses[0], ClientURL: "https://" + addresses[1],
		InitialCluster: "a=https://" + addresses[0], Token: "t", CAFile: filepath.Join(dir, pki.CACertFile),
		CertFile: filepath.Join(dir, pki.NodeCertFile), KeyFile: filepath.Join(dir, pki.NodeKeyFile),
	}.WithDefaults()
	ours, err := serverConfig(spec, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	want := embedded(t, spec)
	if got, want := ours.ServerFeatureGate.String(), want.ServerFeatureGate.String(); got != want {
		t.Errorf("features: got %s, want %s", got, want)
	}
	if ours.ServerFeatureGate.Enabled(features.InitialCorruptCheck) {
		t.Error("etcd's package embed checks the data of its peers before Start now (InitialCheck), and we do not")
	}
	// DiscoveryCfg is used only with endpoints.
	elsewhere := []string{"Logger", "ServerFeatureGate", "PeerTLSInfo", "DiscoveryCfg"}
	got, theirs := reflect.ValueOf(ours), reflect.ValueOf(want)
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		if a, b := got.Field(i).Interface(), theirs.Field(i).Interface(); !slices.Contains(elsewhere, name) && !reflect.DeepEqual(a, b) {
			t.Errorf("%s: got %v, want %v", name, a, b)
		}
	}
	got, theirs = reflect.ValueOf(ours.PeerTLSInfo), reflect.ValueOf(want.PeerTLSInfo)
	for i := range got.NumField() {
		field := got.Type().Field(i)
		if !field.IsExported() || field.Name == "Logger" || field.Name == "HandshakeFailure" { // of a server
			continue
		}
		if a, b := got.Field(i).Interface(), theirs.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			t.Errorf("PeerTLSInfo.%s: got %v, want %v", field.Name, a, b)
		}
	}
}

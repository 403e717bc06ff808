package pki_test

import (
	"crypto/tls"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/durable"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const (
	self     = "node-a"
	loopback = "127.0.0.1"
	day      = 24 * time.Hour
)

// check returns an error unless dir contains an authority, and a certificate of it for the node's key and
// an address.
func check(dir, address string) error {
	ca, err := pki.LoadCA(dir)
	if err != nil {
		return err
	}
	cert, err := pki.ReadCertificate(dir)
	if err != nil {
		return err
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile)); err != nil {
		return err
	}
	return pki.Verify(cert, ca.Certificate(), address, time.Now())
}

// newDir returns a directory with an authority, and a certificate for loopback.
func newDir(t *testing.T) (string, *pki.CA) {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.EnsureCA(dir, "cluster")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, ca, self, loopback); err != nil {
		t.Fatal(err)
	}
	return dir, ca
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// All is created once and kept, with modes that hide the keys.
func TestEnsure(t *testing.T) {
	dir, ca := newDir(t)
	files := map[string]os.FileMode{pki.CACertFile: 0o644, pki.CAKeyFile: 0o600, pki.NodeCertFile: 0o644, pki.NodeKeyFile: 0o600}
	before := map[string]string{}
	for name, mode := range files {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %o, want %o", name, info.Mode().Perm(), mode)
		}
		before[name] = content(t, dir, name)
	}
	again, err := pki.EnsureCA(dir, "cluster")
	if err != nil || again.Hash() != ca.Hash() {
		t.Fatalf("got %v", err)
	}
	if _, err := pki.EnsureCertificate(dir, again, self, loopback); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if content(t, dir, name) != text {
			t.Errorf("%s was created again", name)
		}
	}
	if err := check(dir, loopback); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != len(files) {
		t.Errorf("got %v, %v", entries, err)
	}
}

// The program ended between two writes. The next run completes the files.
func TestEnsure_afterACrash(t *testing.T) {
	t.Run("the key of the authority is there", func(t *testing.T) {
		dir, ca := newDir(t)
		remove(t, dir, pki.CACertFile)
		again, err := pki.EnsureCA(dir, "cluster")
		if err != nil || again.Hash() != ca.Hash() {
			t.Errorf("it is another authority; %v", err)
		}
		if err := check(dir, loopback); err != nil {
			t.Errorf("what it signed before is no longer valid: %v", err)
		}
	})
	t.Run("this node's key is there", func(t *testing.T) {
		dir, ca := newDir(t)
		key := content(t, dir, pki.NodeKeyFile)
		remove(t, dir, pki.NodeCertFile)
		if _, err := pki.EnsureCertificate(dir, ca, self, loopback); err != nil {
			t.Error(err)
		}
		if content(t, dir, pki.NodeKeyFile) != key {
			t.Error("the key was replaced")
		}
	})
	t.Run("a file is half written", func(t *testing.T) {
		dir, ca := newDir(t)
		remove(t, dir, pki.NodeCertFile)
		if err := os.WriteFile(filepath.Join(dir, pki.NodeCertFile+durable.TempSuffix), []byte("half"), 0o400); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.EnsureCertificate(dir, ca, self, loopback); err != nil {
			t.Error(err)
		}
		if err := check(dir, loopback); err != nil {
			t.Error(err)
		}
	})
	t.Run("the key of the authority was lost", func(t *testing.T) {
		dir, _ := newDir(t)
		remove(t, dir, pki.CAKeyFile)
		if _, err := pki.EnsureCA(dir, "cluster"); err == nil || !strings.Contains(err.Error(), pki.CAKeyFile) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, pki.CAKeyFile)); err == nil {
			t.Error("another key was created")
		}
	})
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// A certificate for another key, address or node, or of another authority, is seen.
func TestEnsure_otherFiles(t *testing.T) {
	dir, ca := newDir(t)
	if err := check(dir, "127.0.0.9"); err == nil {
		t.Error("another address is accepted")
	}
	other, _ := newDir(t)
	if _, err := pki.WriteCertificate(dir, []byte(content(t, other, pki.NodeCertFile))); err == nil || !strings.Contains(err.Error(), pki.NodeKeyFile) {
		t.Errorf("a certificate for another key: got %v", err)
	}
	if err := pki.WriteCA(dir, newCA(t)); err != nil {
		t.Fatal(err)
	}
	if err := check(dir, loopback); err == nil {
		t.Error("another authority is accepted")
	}
	if err := pki.WriteCA(dir, ca); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, pki.NodeKeyFile), []byte(content(t, other, pki.NodeKeyFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(dir, loopback); err == nil {
		t.Errorf("another key: got %v", err)
	}
	moved, err := pki.EnsureCertificate(dir, ca, self, "127.0.0.9")
	if err != nil || moved.VerifyHostname("127.0.0.9") != nil {
		t.Errorf("no certificate for the new key and address: %v", err)
	}
}

func TestRenew(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		now        time.Time
		leaf, root bool // is renewed
	}{
		"young":                           {now, false, false},
		"just before two thirds":          {now.Add(240 * day), false, false},
		"after two thirds":                {now.Add(246 * day), true, false},
		"expired":                         {now.Add(500 * day), true, false},
		"the clock was set back":          {now.Add(-3 * day), true, true},
		"the authority's two thirds":      {now.Add(7 * 365 * day), true, true},
		"long after the authority's time": {now.Add(11 * 365 * day), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ca := newDir(t)
			before, err := pki.ReadCertificate(dir)
			if err != nil {
				t.Fatal(err)
			}
			key := content(t, dir, pki.NodeKeyFile)
			renewed, err := pki.Renew(dir, self, loopback, c.now)
			if err != nil || renewed != (c.leaf || c.root) {
				t.Fatalf("got %v, %v", renewed, err)
			}
			after, err := pki.ReadCertificate(dir)
			if err != nil {
				t.Fatal(err)
			}
			root, err := pki.LoadCA(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := after.SerialNumber.Cmp(before.SerialNumber) != 0; got != c.leaf {
				t.Errorf("the certificate was renewed: %v, want %v", got, c.leaf)
			}
			if got := !root.Certificate().Equal(ca.Certificate()); got != c.root {
				t.Errorf("the authority was renewed: %v, want %v", got, c.root)
			}
			if root.Hash() != ca.Hash() || content(t, dir, pki.NodeKeyFile) != key {
				t.Error("a key was replaced")
			}
			if err := pki.Verify(after, root.Certificate(), loopback, c.now); err != nil {
				t.Error(err)
			}
			// Members whose authority was not renewed yet, and certificates of before.
			if err := pki.Verify(after, ca.Certificate(), loopback, after.NotBefore.Add(day)); c.now.Before(ca.Certificate().NotAfter) && c.now.After(now.Add(-day)) && err != nil {
				t.Errorf("with the authority's old certificate: %v", err)
			}
			if again, err := pki.Renew(dir, self, loopback, c.now); again || err != nil {
				t.Errorf("renewed again: %v, %v", again, err)
			}
		})
	}
}

// A reader that opens certificate and key one after the other, as etcd does, never
// finds two that do not match.
func TestRenew_neverMixed(t *testing.T) {
	dir, _ := newDir(t)
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				if _, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile)); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for i := range 100 {
		if _, err := pki.Renew(dir, self, loopback, time.Now().Add(time.Duration(i%2)*300*day)); err != nil {
			t.Error(err)
		}
	}
	close(ended)
	readers.Wait()
}

// etcd uses a renewed certificate for the next connection, on both of its ports.
func TestRenew_whileEtcdRuns(t *testing.T) {
	dir, ca := newDir(t)
	var urls [2]url.URL
	for i := range urls {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		urls[i] = url.URL{Scheme: "https", Host: addr}
	}
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls[:1], urls[:1]
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls[1:], urls[1:]
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs, cfg.UnsafeNoFsync = 10, 100, true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: filepath.Join(dir, pki.NodeCertFile), KeyFile: filepath.Join(dir, pki.NodeKeyFile),
		TrustedCAFile: filepath.Join(dir, pki.CACertFile), ClientCertAuth: true,
	}
	cfg.PeerTLSInfo = cfg.ClientTLSInfo
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd is not ready")
	}
	before := serials(t, dir, urls)
	if renewed, err := pki.Renew(dir, self, loopback, time.Now().Add(300*day)); err != nil || !renewed {
		t.Fatalf("got %v, %v", renewed, err)
	}
	// The clock of the certificates is ahead of this machine's, so a certificate of
	// now follows, as for an address that changed.
	if _, err := pki.EnsureCertificate(dir, ca, self, loopback); err != nil {
		t.Fatal(err)
	}
	after := serials(t, dir, urls)
	want, err := pki.ReadCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, serial := range after {
		if serial == before[i] || serial != want.SerialNumber.String() {
			t.Errorf("port %d has serial %s, before %s, want %s", i, serial, before[i], want.SerialNumber)
		}
	}
}

// serials returns the serial numbers of the certificates that servers present.
func serials(t *testing.T, dir string, urls [2]url.URL) [2]string {
	t.Helper()
	var out [2]string
	for i, u := range urls {
		cfg, err := pki.ClientTLS(dir)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", u.Host, cfg)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	return out
}

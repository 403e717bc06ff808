package quorum

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/cluster/enrol"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// thief is a copy of a node's secrets: the CA, its key, and the node's certificate and key.
type thief struct{ dir string }

func steal(t *testing.T, n *Node) thief {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(datadir.Layout(n.Dir).PKI())); err != nil {
		t.Fatal(err)
	}
	return thief{dir}
}

// forged returns credentials that the thief signs with its copy of the CA's key.
func (s thief) forged(t *testing.T, node, address string) string {
	t.Helper()
	ca, err := pki.LoadCA(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := pki.WriteAuthority(dir, ca.Certificate()); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureCertificate(dir, ca, node, address); err != nil {
		t.Fatal(err)
	}
	return dir
}

// enters reports whether a port accepts a client certificate. The server is not verified: its own
// certificate says nothing about which clients it lets in.
func enters(t *testing.T, dir, address string, port int) bool {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, pki.NodeCertFile), filepath.Join(dir, pki.NodeKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	dialer := &tls.Dialer{Config: &tls.Config{
		InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil },
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(port)))
	if err != nil {
		return false
	}
	defer conn.Close()
	// With TLS 1.3 the client learns of a refusal with the first bytes that it reads.
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1))
	alert := tls.AlertError(0)
	return !errors.As(err, &alert) && (err == nil || !strings.Contains(err.Error(), "tls: "))
}

// wantRefusedNow requires that all ports of a node refuse the thief's certificate, and those that it signs.
func (s thief) wantRefusedNow(t *testing.T, n *Node) {
	t.Helper()
	for _, dir := range []string{s.dir, s.forged(t, n.ID, n.Address), s.forged(t, "whoever", "127.0.0.1")} {
		for _, port := range []int{n.Marker().PeerPort, n.Marker().ClientPort, n.Marker().JoinPort} {
			if enters(t, dir, n.Address, port) {
				t.Errorf("port %d of %s lets the removed node in, with %s", port, n.ID, dir)
			}
		}
		if a, err := enrol.AskAuthority(t.Context(), n.Marker().JoinURL(), dir); err == nil {
			t.Errorf("%s gave the removed node a certificate: %v", n.ID, a.Certificate.Subject)
		}
	}
}

func (s thief) wantLetIn(t *testing.T, n *Node) {
	t.Helper()
	for _, port := range []int{n.Marker().PeerPort, n.Marker().ClientPort, n.Marker().JoinPort} {
		if !enters(t, s.forged(t, "whoever", "127.0.0.1"), n.Address, port) {
			t.Errorf("port %d of %s refuses the old CA before it was replaced", port, n.ID)
		}
	}
}

// wantOneCA requires that a node trusts one CA, holds its key if it votes, and uses a certificate of it.
func wantOneCA(t *testing.T, old *x509.Certificate, nodes ...*Node) (hash pki.Hash) {
	t.Helper()
	for i, n := range nodes {
		dir := datadir.Layout(n.Dir).PKI()
		trusted, err := pki.ReadTrusted(dir)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			hash = pki.HashOf(trusted[0])
		}
		ca, err := pki.LoadCA(dir)
		switch {
		case err != nil:
			t.Errorf("%s: %v", n.ID, err)
		case len(trusted) != 1 || ca.Hash() != hash || hash == pki.HashOf(old) || n.Marker().CAHash != hash.String():
			t.Errorf("%s trusts %d CAs, the first is %s, its marker has %s; want %s", n.ID, len(trusted), ca.Hash(), n.Marker().CAHash, hash)
		}
		cert, err := pki.ReadCertificate(dir)
		if err != nil || pki.Verify(cert, ca.Certificate(), n.Address, time.Now()) != nil {
			t.Errorf("%s uses a certificate of another CA: %v", n.ID, err)
		}
		if _, err := os.Stat(filepath.Join(dir, pki.NextKeyFile)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still has %s: %v", n.ID, pki.NextKeyFile, err)
		}
	}
	return hash
}

func authorityOf(t *testing.T, n *Node) *x509.Certificate {
	t.Helper()
	cert, err := pki.ReadAuthority(datadir.Layout(n.Dir).PKI())
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A node joins, votes, and is removed. It holds the key of the CA, and signs certificates for itself. While
// clients write, the CA is replaced: no gate closes, no write is lost, and the removed node is
// refused at every port. New nodes join with new tokens.
func TestRotateCA_underLoad(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	bundle := p.bundle("1.0.0", "1.0.0", "1.0.0")
	a, b, c := p.three(bundle, bundle, bundle)
	p.awaitStatus(a, "DONE 1.0.0 min 1.0.0")
	args := joinArgs(t, a, 2)
	evil := p.rig.Node("evil")
	p.start(evil, append(args, bundle)...)
	awaitVoters(a, b, c, evil)
	cluster.Await(t, "evil to have the key of the CA", func(context.Context) error {
		_, err := pki.LoadCA(datadir.Layout(evil.Dir).PKI())
		return err
	})
	old, stolen := authorityOf(t, a), steal(t, evil)
	KillAll(evil)
	a.command(t, "cluster", "remove", "evil")
	a.command(t, "node", "remove", "evil", "--confirm-stopped")
	for _, n := range []*Node{a, b, c} {
		p.awaitGate(n, "")
		stolen.wantLetIn(t, n)
	}
	if out := a.command(t, "cluster", "rotate-ca"); strings.Contains(out, "evil") || !strings.Contains(out, "--yes") {
		t.Errorf("got %s", out)
	}
	writes, watched := startLoad(t, a, b, c), watchGates(t, map[*Node]int{a: 200, b: 200, c: 200})
	out := a.command(t, "cluster", "rotate-ca", "--yes")
	wantText(t, out, "The CA was replaced", "All tokens were deleted")
	writes.awaitMore(t, 50)
	watched.end()
	writes.end()
	for _, n := range []*Node{a, b, c} {
		writes.wantAll(t, n, b)
		stolen.wantRefusedNow(t, n)
	}
	wantOneCA(t, old, a, b, c)
	d := p.rig.Node("d")
	if last := d.Refused(append(args, bundle)...); !strings.Contains(last, "create another token") {
		t.Errorf("a token of before was not refused: %s", last)
	}
	d = p.rig.Node("d")
	p.start(d, append(joinArgs(t, a, 1), bundle)...)
	awaitVoters(a, b, c, d)
	for _, n := range []*Node{a, b, c, d} {
		p.restart(n, bundle)
	}
	awaitVoters(a, b, c, d)
}

// rotateKills are the steps of a rotation after which a, b and c end. Each step that is for all is taken
// by one of them.
var rotateKills = [][]string{
	{"trust", "restart", "key"}, {"sign", "use", "adopt"}, {"create", "create", "create"}, {"drop", "step", "end"},
}

// Each of three nodes is killed after each step of a rotation, and comes back. The rotation ends, and no
// write is lost.
func TestRotateCA_killedAfterEachStep(t *testing.T) {
	t.Parallel()
	rig := New(t, cluster.BuildSteps(t))
	a, b, c := rig.Node("a"), rig.Node("b"), rig.Node("c")
	all := []*Node{a, b, c}
	a.Start("--lease-ttl=3s")
	a.AwaitRunning()
	args := append(joinArgs(t, a, 2), "--lease-ttl=3s")
	b.Start(args...)
	awaitVoters(a, b)
	c.Start(args...)
	awaitVoters(all...)
	a.Put(a.Client(), "/test/key", "x")
	for _, steps := range rotateKills {
		old := authorityOf(t, a)
		for i, n := range all {
			restartEnding(t, n, steps[i])
		}
		awaitVoters(all...)
		b.command(t, "cluster", "rotate-ca", "--yes", "--detach")
		kills := 0
		cluster.Await(t, fmt.Sprintf("the rotation to end after %v", steps), func(ctx context.Context) error {
			for _, n := range all {
				select {
				case <-n.Done(): // it was killed after the step
					n.Start("--lease-ttl=3s")
					kills++
				default:
				}
			}
			return rotated(ctx, old, all...)
		})
		awaitVoters(all...)
		t.Logf("%d kills after %v, the CA is %s now", kills, steps, wantOneCA(t, old, all...))
		if kills == 0 {
			t.Errorf("no node was killed after %v", steps)
		}
		if got := b.Keys(b.Client(), "/test/"); !slices.Equal(got, []string{"/test/key"}) {
			t.Errorf("got %v", got)
		}
	}
}

// rotated returns nil when all nodes show that the rotation ended.
func rotated(ctx context.Context, old *x509.Certificate, nodes ...*Node) error {
	for _, n := range nodes {
		now, err := n.ClusterStatus(ctx)
		if err != nil {
			return err
		}
		if now.CARotation.Phase != "Ended" || authorityIs(n, old) {
			return fmt.Errorf("%s: %+v", n.ID, now.CARotation)
		}
	}
	return nil
}

func authorityIs(n *Node, old *x509.Certificate) bool {
	all, err := pki.ReadTrusted(datadir.Layout(n.Dir).PKI())
	return err != nil || slices.ContainsFunc(all, func(c *x509.Certificate) bool { return pki.HashOf(c) == pki.HashOf(old) })
}

// restartEnding starts a sidecar again that ends after a step of a rotation.
func restartEnding(t *testing.T, n *Node, step string) {
	t.Helper()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n.StartWith([]string{"LOCKSTEP_EXIT_AFTER_STEP=rotate/" + step}, "--lease-ttl=3s")
	n.AwaitRunning()
}

// The rotation waits for a node that is off, says so, and goes on when it is removed. The node is out
// then, also with its keys and certificates.
func TestRotateCA_nodeOff(t *testing.T) {
	t.Parallel()
	a, b, c := newThree(t)
	old, stolen := authorityOf(t, a), steal(t, c)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	a.command(t, "cluster", "rotate-ca", "--yes", "--detach")
	cluster.Await(t, "the rotation to wait for c", func(ctx context.Context) error {
		now, err := a.ClusterStatus(ctx)
		if err == nil && (now.CARotation.Phase != "Trusting" || !slices.Contains(now.CARotation.WaitsFor, "c")) {
			err = fmt.Errorf("got %+v", now.CARotation)
		}
		return err
	})
	if out, err := a.tryCommand(t, "cluster", "token", "create"); err == nil || !strings.Contains(out, "is being replaced") {
		t.Errorf("a token was created: %s", out)
	}
	a.command(t, "cluster", "remove", "c")
	a.command(t, "node", "remove", "c", "--confirm-stopped")
	wantText(t, a.command(t, "cluster", "rotate-ca", "--yes"), "The CA was replaced")
	wantOneCA(t, old, a, b)
	for _, n := range []*Node{a, b} {
		stolen.wantRefusedNow(t, n)
	}
}

// Services that use the file of the CA start again with both CAs, and with the new one, also on a node
// without a member. Each start writes the number of CAs in the file.
func TestRotateCA_services(t *testing.T) {
	t.Parallel()
	rig := New(t, "")
	a, b := rig.Node("a"), rig.Node("b")
	flagA, startsA := countingService(t)
	flagB, startsB := countingService(t)
	a.Start(flagA)
	a.AwaitRunning()
	b.Start(append(joinArgs(t, a, 1), flagB)...)
	awaitVoters(a, b)
	setMember(t, a, b, false)
	wantWithoutMember(t, b)
	for _, starts := range []string{startsA, startsB} {
		awaitLast(t, starts, "1")
	}
	before := len(startsIn(t, startsB))
	old := authorityOf(t, a)
	wantText(t, a.command(t, "cluster", "rotate-ca", "--yes"), "The CA was replaced")
	if got := startsIn(t, startsA); !slices.Equal(got, []string{"1", "2", "1"}) {
		t.Errorf("the service of a started with %v CAs, want 1, 2 and 1", got)
	}
	if got := startsIn(t, startsB); !slices.Equal(got[before:], []string{"2", "1"}) {
		t.Errorf("the service of b started with %v CAs more, want 2 and 1", got[before:])
	}
	if authorityIs(a, old) || authorityIs(b, old) {
		t.Error("a node still trusts the old CA")
	}
	for _, n := range []*Node{a, b} {
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	a.Start(flagA)
	b.Start(flagB)
	a.AwaitRunning()
	b.AwaitRunning()
	setMember(t, a, b, true)
	awaitVoters(a, b)
	cluster.Await(t, "b to get the key of the new CA", func(context.Context) error {
		_, err := pki.LoadCA(datadir.Layout(b.Dir).PKI())
		return err
	})
	wantOneCA(t, old, a, b)
}

// countingService returns the flag with a directory of one service, and the file to which it writes at each
// start the number of CAs in its file.
func countingService(t *testing.T) (flag, starts string) {
	t.Helper()
	dir, starts := t.TempDir(), filepath.Join(t.TempDir(), "starts")
	text := "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: api}\nrole: kubernetes_controller\nprocess:\n" +
		"  command: [/bin/sh, -c, 'grep -c BEGIN \"$1\" >> \"$2\"; exec sleep infinity', sh, $(ETCD_CAFILE), " + starts + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "api.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--services=" + dir, starts
}

func startsIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func awaitLast(t *testing.T, file, want string) {
	t.Helper()
	cluster.Await(t, "a start in "+file, func(context.Context) error {
		if got := startsIn(t, file); len(got) == 0 || got[len(got)-1] != want {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
}

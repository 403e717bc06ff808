package main

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kubeadm"
)

// A first call makes a node that Prometheus can scrape: HTTPS with a certificate of the cluster's CA,
// which each call renews, a named port, and credentials for the commands on the node.
func TestKubeadm_serving(t *testing.T) {
	n := newKubeadmNode(t)
	n.makeCA()
	out := n.ok("--image=lockstep", "--bundle=builtin", "--apiserver-url=https://10.0.0.1:6443")
	patch := n.read(filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch))
	for _, want := range append(kubeadm.ServingArgs(), "    - {name: lockstep, containerPort: 8086}\n", "scheme: HTTPS, path: /readyz") {
		if !strings.Contains(patch, want) {
			t.Errorf("the patch has no %q", want)
		}
	}
	if strings.Contains(patch, "scheme: HTTP,") || strings.Count(out, ". "+n.dir+"/env") == 0 {
		t.Errorf("got\n%s\n%s", out, patch)
	}
	env := n.read(filepath.Join(n.dir, kubeadm.EnvFile))
	for _, want := range []string{"LOCKSTEP_SERVER='https://127.0.0.1:8086'", "LOCKSTEP_CERTIFICATE_AUTHORITY='" + n.dir + "/ca.crt'", "LOCKSTEP_CLIENT_KEY='" + n.dir + "/client.key'"} {
		if !strings.Contains(env, want) {
			t.Errorf("env has no %q:\n%s", want, env)
		}
	}
	monitor := n.read(filepath.Join(n.dir, kubeadm.MonitoringDir, "podmonitor.yaml"))
	if !strings.Contains(monitor, "serverName: "+kubeadm.ServerName) || !strings.Contains(monitor, "port: lockstep\n") || strings.Contains(monitor, "insecureSkipVerify") {
		t.Errorf("got\n%s", monitor)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(n.read(filepath.Join(n.dir, kubeadm.CAFile))))
	serial := func() string {
		own, err := tls.LoadX509KeyPair(filepath.Join(n.dir, kubeadm.ServingCert), filepath.Join(n.dir, kubeadm.ServingKey))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"127.0.0.1", "10.0.0.1", "cp-1", "localhost", kubeadm.ServerName} {
			if _, err := own.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		return own.Leaf.SerialNumber.String()
	}
	before := serial()
	if n.ok("--apiserver-url=https://10.0.0.1:6443"); serial() == before {
		t.Error("the certificate was not renewed")
	}

	// One of people's own is kept.
	n.replaceIn(filepath.Join(n.dir, kubeadm.ServingCert), "-----BEGIN", "mine\n-----BEGIN")
	if out := n.ok("--apiserver-url=https://10.0.0.1:6443"); !strings.Contains(out, "left alone "+n.dir+"/serving.crt: it was changed since") || !strings.Contains(n.read(filepath.Join(n.dir, kubeadm.ServingCert)), "mine") {
		t.Errorf("got\n%s", out)
	}
}

// Flags that choose a listener are obeyed, now and later, and --https changes it back.
func TestKubeadm_listener(t *testing.T) {
	for _, args := range [][]string{{"--listen=127.0.0.1:8086"}, {"--listen=0.0.0.0:8086", "--insecure-listen"}} {
		n := newKubeadmNode(t)
		n.makeCA()
		patch := func() string { return n.read(filepath.Join(n.dir, kubeadm.PatchesDir, kubeadm.PodPatch)) }
		n.ok(append([]string{"--image=lockstep", "--bundle=builtin", "--apiserver-url=https://10.0.0.1:6443", "--"}, args...)...)
		asked := patch()
		if strings.Contains(asked, "serving.crt") || strings.Contains(asked, "ports:") || !strings.Contains(asked, args[0]) {
			t.Errorf("%v: got\n%s", args, asked)
		}
		if n.ok("--apiserver-url=https://10.0.0.1:6443"); patch() != asked {
			t.Errorf("%v: the next call changed the patch", args)
		}
		if n.ok("--apiserver-url=https://10.0.0.1:6443", "--https"); !strings.Contains(patch(), "--tls-cert-file=/etc/lockstep/serving.crt") || strings.Contains(patch(), "--insecure-listen") {
			t.Errorf("%v: got\n%s", args, patch())
		}
		if n.ok(append([]string{"--apiserver-url=https://10.0.0.1:6443", "--"}, args...)...); patch() != asked {
			t.Errorf("%v: got\n%s\nwant\n%s", args, patch(), asked)
		}
	}
}

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

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
	wantDiscovered(t, patch, monitor)
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

// wantDiscovered requires that the PodMonitor, and the job for a Prometheus without the operator, find the port that the
// patch names in the pod of kubeadm's manifest, and speak to it as it serves.
func wantDiscovered(t *testing.T, patch, podMonitor string) {
	t.Helper()
	type container struct {
		Name           string
		Ports          []struct{ Name string }
		ReadinessProbe struct{ HTTPGet struct{ Scheme string } }
	}
	var pod struct {
		Spec struct{ Containers []container }
	}
	var monitor struct {
		Spec struct {
			Selector            metav1.LabelSelector
			PodMetricsEndpoints []struct{ Port, Scheme, Path string }
		}
	}
	var file struct {
		Jobs []struct {
			Scheme string
			TLS    struct {
				Server string `json:"server_name"`
			} `json:"tls_config"`
			Discovery []struct {
				Role       string
				Namespaces struct{ Names []string }
			} `json:"kubernetes_sd_configs"`
			Relabel []struct {
				Labels []string `json:"source_labels"`
				Regex  string
				Action string
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	job, err := os.ReadFile("../../deploy/prometheus/prometheus.yaml")
	if err := errors.Join(err, yaml.Unmarshal([]byte(patch), &pod), yaml.Unmarshal([]byte(podMonitor), &monitor), yaml.Unmarshal(job, &file)); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c container) bool { return c.Name == "lockstep" })
	if i < 0 || len(pod.Spec.Containers[i].Ports) != 1 || len(monitor.Spec.PodMetricsEndpoints) != 1 || len(file.Jobs) != 1 {
		t.Fatalf("got\n%s\n%s\n%s", patch, podMonitor, job)
	}
	port, scheme := pod.Spec.Containers[i].Ports[0].Name, strings.ToLower(pod.Spec.Containers[i].ReadinessProbe.HTTPGet.Scheme)
	if e := monitor.Spec.PodMetricsEndpoints[0]; e.Port != port || e.Scheme != scheme || e.Path != "/metrics" {
		t.Errorf("the PodMonitor reads %+v; the patch has the port %q, and %s", e, port, scheme)
	}
	// kubeadm's manifest has these labels, and the kubelet gives them to the pod in the API.
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set{"component": "kube-apiserver", "tier": "control-plane"}) || selector.Matches(labels.Set{"component": "etcd", "tier": "control-plane"}) {
		t.Errorf("the PodMonitor selects %v, %v", selector, err)
	}
	j := file.Jobs[0]
	if j.Scheme != scheme || j.TLS.Server != kubeadm.ServerName || len(j.Discovery) != 1 || j.Discovery[0].Role != "pod" || !slices.Contains(j.Discovery[0].Namespaces.Names, "kube-system") ||
		len(j.Relabel) == 0 || j.Relabel[0].Regex != port || j.Relabel[0].Action != "keep" || !slices.Equal(j.Relabel[0].Labels, []string{"__meta_kubernetes_pod_container_port_name"}) {
		t.Errorf("the job has %+v", j)
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

package kubeadm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/deploy"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// now is the time in all tests.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// asEmbedded are the settings with which the patch is the file of this package.
var asEmbedded = Settings{Image: "lockstep", Bundle: "/etc/lockstep/bundle"}

func TestPatch_asEmbedded(t *testing.T) {
	want := string(embedded(PatchesDir + "/" + PodPatch))
	if diff := cmp.Diff(want, string(asEmbedded.Patch())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// asOther differs in everything that can differ.
var asOther = Settings{
	Image: "registry.example.com:5000/lockstep@sha256:00", Dir: "/opt/lockstep",
	Args: []string{
		"--listen=[::]:9086", "--tls-cert-file=/etc/lockstep/tls.crt", "--etcd-servers=https://10.0.0.9:2379", "--etcd-cafile=/etc/lockstep/etcd-ca.crt",
		"--etcd-certfile=/etc/lockstep/etcd.crt", "--etcd-keyfile=/etc/lockstep/etcd.key", "--ephemeral", `--etcd-prefix=/a "b": c/`,
	},
}

func TestPatch_golden(t *testing.T) { wantGolden(t, "testdata/patch.yaml", asOther.Patch()) }

func TestEnvironment(t *testing.T) {
	wantGolden(t, "testdata/env", asEmbedded.Environment())
	wantGolden(t, "testdata/env-other", asOther.Environment())
}

func wantGolden(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What was written is read, so that a later call keeps what it does not set.
func TestReadSettings(t *testing.T) {
	for _, want := range []Settings{asEmbedded, asOther, {Image: "a", Args: []string{"--apiserver-readyz=false"}}} {
		got, err := ReadSettings(want.Patch())
		if err != nil {
			t.Fatal(err)
		}
		got.Dir = want.Dir // the caller knows it
		if diff := cmp.Diff(want.RunArgs(), got.RunArgs()); diff != "" || got.Image != want.Image || got.Bundle != want.Bundle {
			t.Errorf("got %+v, want %+v: %s", got, want, diff)
		}
		if again := got.Patch(); !bytes.Equal(again, want.Patch()) {
			t.Errorf("got another patch: %s", cmp.Diff(string(want.Patch()), string(again)))
		}
	}
}

func TestReadSettings_invalid(t *testing.T) {
	for text, want := range map[string]string{
		"spec: {containers: [{name: kube-apiserver}]}": "has no container lockstep",
		"- a": "not the manifest of a pod",
		"":    "has no container lockstep",
	} {
		if _, err := ReadSettings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestManifest: the manifest in testdata is what kubeadm writes with the patches of this
// package. Package test/kubeadm holds a real kubeadm to the same.
func TestManifest(t *testing.T) {
	pod, err := ParsePod(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := pod.Sidecar(); !slices.Equal(got.Args, asEmbedded.RunArgs()) || got.Image != asEmbedded.Image {
		t.Errorf("got the container %+v; write testdata again with kubeadm init phase control-plane apiserver --patches", got)
	}
	if pod.Spec.Containers[0].Name != "kube-apiserver" {
		t.Error("kube-apiserver is not the first container")
	}
}

func TestHostPath(t *testing.T) {
	pod, err := ParsePod(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	for inside, want := range map[string]string{
		"/etc/lockstep/bundles/1.0.0":             "/etc/lockstep/bundles/1.0.0",
		"/etc/lockstep":                           "/etc/lockstep",
		"/etc/lockstep-other/x":                   "",
		"/etc/kubernetes/pki/etcd/ca.crt":         "/etc/kubernetes/pki/etcd/ca.crt",
		"/etc/kubernetes/pki/etcd/ca.key":         "", // the sidecar has only what it needs
		"/etc/kubernetes/pki/ca.key":              "",
		"/var/lib/lockstep/recording.gz":          "/var/lib/lockstep/recording.gz",
		"/var/lib/lockstep-other":                 "",
		"/etc/kubernetes/pki/apiserver-etcd.key2": "",
	} {
		if got := pod.HostPath(*pod.Sidecar(), inside); got != want {
			t.Errorf("%s: got %q, want %q", inside, got, want)
		}
	}
}

func manifest(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("testdata/kube-apiserver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// clean are the facts of a node on which nothing is wrong.
func clean(t *testing.T) Facts {
	t.Helper()
	return Facts{
		Node: "cp-1", Now: now, Dir: DefaultDir, Admin: "/k/admin.conf", Write: "sidecar kubeadm",
		Manifest:   Content{Path: "/m/kube-apiserver.yaml", Bytes: manifest(t)},
		PodPatch:   Content{Path: "/p/" + PodPatch, Bytes: asEmbedded.Patch()},
		FlagsPatch: Content{Path: "/p/" + FlagsPatch},
		Sidecar:    Sidecar{ShutdownDelay: 10 * time.Second, Listen: "127.0.0.1:8086"},
		Local:      []string{"127.0.0.1", "10.0.0.1", "10.0.0.100"},
		Kubeconfig: Kubeconfig{
			Path: "/l/kubeconfig", Server: "https://10.0.0.1:6443", Addresses: []string{"10.0.0.1"}, User: "lockstep:cp-1", Groups: []string{Group},
		},
		Certificates: []Certificate{{Path: "/l/a.crt", Name: "the certificate", Renew: "renew it", Until: now.Add(ExpiresSoon)}, {Path: "/l/a.key", Name: "the key", Renew: "renew it"}},
	}
}

func TestCheck_clean(t *testing.T) {
	if found := clean(t).Check(); len(found) > 0 {
		t.Errorf("got %+v", found)
	}
}

// edited replaces text in the manifest.
func edited(from, to string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		if !bytes.Contains(f.Manifest.Bytes, []byte(from)) {
			t.Fatalf("the manifest has no %q", from)
		}
		f.Manifest.Bytes = bytes.Replace(f.Manifest.Bytes, []byte(from), []byte(to), 1)
	}
}

// without removes a field of the sidecar's container, with what is below it.
func without(field string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		head, tail, _ := bytes.Cut(f.Manifest.Bytes, []byte("  - args:\n"))
		lines := regexp.MustCompile(`(?m)^    ` + field + `:\n(?:^      .*\n)+`)
		if !lines.Match(tail) {
			t.Fatalf("the container has no %s", field)
		}
		f.Manifest.Bytes = slices.Concat(head, []byte("  - args:\n"), lines.ReplaceAll(tail, nil))
	}
}

func facts(change func(*Facts)) func(*testing.T, *Facts) {
	return func(_ *testing.T, f *Facts) { change(f) }
}

func TestCheck(t *testing.T) {
	gone := errors.New("no such file")
	for _, test := range []struct {
		name   string
		damage func(*testing.T, *Facts)
		want   []Reason
		text   string // in the first message or its remedy
	}{
		{"no manifest", facts(func(f *Facts) { f.Manifest.Err = gone }), []Reason{ManifestUnreadable}, "kubeadm init --patches /etc/lockstep/patches    # the first node\nkubeadm join --control-plane --patches /etc/lockstep/patches"},
		{"the manifest is not a pod", facts(func(f *Facts) { f.Manifest.Bytes = []byte("- a") }), []Reason{ManifestUnreadable}, "not the manifest of a pod"},
		{"the manifest of another pod", edited("name: kube-apiserver\n    ports", "name: etcd\n    ports"), []Reason{ManifestUnreadable}, "no container kube-apiserver"},
		{"an upgrade without patches", edited("name: lockstep\n    readiness", "name: other\n    readiness"), []Reason{ContainerMissing}, "without --patches"},
		{"no patch", facts(func(f *Facts) { f.PodPatch.Err = gone }), []Reason{PatchUnreadable}, "without the sidecar"},
		{"a patch without the container", facts(func(f *Facts) { f.PodPatch.Bytes = nil }), []Reason{PatchUnreadable}, "no container lockstep"},
		{"no patch of flags", facts(func(f *Facts) { f.FlagsPatch.Err = gone }), []Reason{PatchUnreadable}, "flags for a stop"},
		{"a new image", facts(func(f *Facts) { f.PodPatch.Bytes = Settings{Image: "lockstep:2", Bundle: asEmbedded.Bundle}.Patch() }), []Reason{PatchNotApplied}, "/patches    # on one node after another"},
		{"a new bundle", facts(func(f *Facts) { f.PodPatch.Bytes = Settings{Image: "lockstep", Bundle: "/b"}.Patch() }), []Reason{PatchNotApplied}, ""},
		{"wrong arguments", facts(func(f *Facts) { f.Sidecar.Err = errors.New("unknown flag: --x") }), []Reason{ArgumentsInvalid}, "--x"},
		{"no startup probe", without("startupProbe"), []Reason{ProbeMissing}, "no startup probe"},
		{"no readiness probe", without("readinessProbe"), []Reason{ProbeMissing}, "ready while the gate is closed"},
		{"no liveness probe", without("livenessProbe"), []Reason{ProbeMissing}, "not restarted"},
		{"a probe of another path", edited("path: /readyz\n        port: 8086", "path: /healthz\n        port: 8086"), []Reason{ProbeMissing}, "readiness probe of /readyz"},
		{"another port", facts(func(f *Facts) { f.Sidecar.Listen = "127.0.0.1:9086" }), []Reason{ProbeMissing, ProbeMissing, ProbeMissing}, "asks port 8086, and the sidecar listens on 9086"},
		{"a probe that names no port of ours", edited("path: /readyz\n        port: 8086", "path: /readyz\n        port: 8087"), []Reason{ProbeMissing}, "asks port 8087"},
		{"a probe of the node's address", edited("      httpGet:\n        host: 127.0.0.1\n        path: /readyz", "      httpGet:\n        path: /readyz"), []Reason{ProbeMissing}, `readiness probe of the container lockstep asks host "", and the sidecar listens on 127.0.0.1:8086`},
		{"probes of another loopback address", facts(func(f *Facts) { f.Sidecar.Listen = "[::1]:8086" }), []Reason{ProbeMissing, ProbeMissing, ProbeMissing}, `host "127.0.0.1"`},
		{"a listener on one address of the node", facts(func(f *Facts) { f.Sidecar.Listen = "10.0.0.1:8086" }), []Reason{ProbeMissing, ProbeMissing, ProbeMissing}, "listens on 10.0.0.1:8086"},
		{"a listener on all addresses", facts(func(f *Facts) { f.Sidecar.Listen = "[::]:8086" }), nil, ""},
		{"a listener on localhost", facts(func(f *Facts) { f.Sidecar.Listen = "localhost:8086" }), nil, ""},
		{"a probe of localhost", edited("      httpGet:\n        host: 127.0.0.1\n        path: /readyz", "      httpGet:\n        host: localhost\n        path: /readyz"), nil, ""},
		{"a probe of another machine", func(t *testing.T, f *Facts) {
			t.Helper()
			f.Sidecar.Listen = "0.0.0.0:8086"
			edited("      httpGet:\n        host: 127.0.0.1\n        path: /readyz", "      httpGet:\n        host: 10.0.0.2\n        path: /readyz")(t, f)
		}, []Reason{ProbeMissing}, `host "10.0.0.2"`},
		{"probes in plain HTTP of a sidecar with TLS", facts(func(f *Facts) { f.Sidecar.TLS = true }), []Reason{ProbeMissing, ProbeMissing, ProbeMissing}, "uses HTTP, and the sidecar serves HTTPS"},
		{"a probe in HTTPS of a sidecar without TLS", edited("path: /livez\n        port: 8086\n        scheme: HTTP\n", "path: /livez\n        port: 8086\n        scheme: HTTPS\n"), []Reason{ProbeMissing}, "uses HTTPS, and the sidecar serves HTTP"},
		{"a probe without a scheme", edited("path: /readyz\n        port: 8086\n        scheme: HTTP\n", "path: /readyz\n        port: 8086\n"), nil, ""},
		{"the default grace period", edited("  terminationGracePeriodSeconds: 60\n  volumes", "  volumes"), []Reason{GraceUnknown}, "grace period of the pod is 30s"},
		{"a grace period that is too short", edited("  terminationGracePeriodSeconds: 60\n  volumes", "  terminationGracePeriodSeconds: 19\n  volumes"), []Reason{GraceTooShort, GraceUnknown}, "to 20 or more"},
		{"a delay that is too long", edited("delay-duration=15s", "delay-duration=56s"), []Reason{GraceTooShort}, "to 61 or more"},
		{"a delay of the sidecar that is too long", facts(func(f *Facts) { f.Sidecar.ShutdownDelay = time.Minute }), []Reason{GraceTooShort}, "1m5s at least"},
		{"no delay", edited("    - --shutdown-delay-duration=15s\n", ""), []Reason{DelayMissing}, "before load balancers notice"},
		{"a delay of nothing", edited("delay-duration=15s", "delay-duration=0"), []Reason{DelayMissing}, ""},
		{"two delays, of which the last counts", edited("delay-duration=15s", "delay-duration=15s\n    - --shutdown-delay-duration=0"), []Reason{DelayMissing}, ""},
		{"no retry-after", edited("    - --shutdown-send-retry-after=true\n", ""), []Reason{RetryAfterMissing}, "open watches"},
		{"no retry-after, said", edited("retry-after=true", "retry-after=false"), []Reason{RetryAfterMissing}, ""},
		{"retry-after without a value", edited("retry-after=true", "retry-after"), nil, ""},
		{"a preStop hook", edited("    name: kube-apiserver\n    ports", "    lifecycle: {preStop: {sleep: {seconds: 15}}}\n    name: kube-apiserver\n    ports"), []Reason{PreStop}, "later than the other"},
		{"a preStop hook that is too long", edited("    name: kube-apiserver\n    ports", "    lifecycle: {preStop: {sleep: {seconds: 45}}}\n    name: kube-apiserver\n    ports"), []Reason{PreStop}, "do not fit into the grace period of 1m0s"},
		{"a preStop hook of the sidecar", edited("    name: lockstep\n    readiness", "    lifecycle: {preStop: {httpGet: {path: /x}}}\n    name: lockstep\n    readiness"), []Reason{PreStop}, "lockstep has a preStop hook"},
		{"a native sidecar", edited("  - args:\n    - run", "  initContainers:\n  - restartPolicy: Always\n    args:\n    - run"), []Reason{StoppedLast}, "initContainers"},
		{"the variable in seconds", edited("value: 60s", `value: "60"`), nil, ""},
		{"a variable that is not true", edited("value: 60s", "value: 30s"), []Reason{GraceUnknown}, `is "30s"`},
		{"neither writes the Service", edited("- --secure-port=6443", "- --endpoint-reconciler-type=none"), []Reason{EndpointsUnwritten}, "-- --kubernetes-service"},
		{"both write the Service", facts(func(f *Facts) { f.Sidecar.KubernetesService = true }), []Reason{EndpointsContested}, "both write"},
		{"a kubeconfig for the load balancer", facts(func(f *Facts) {
			f.Kubeconfig.Server, f.Kubeconfig.Addresses = "https://10.0.0.100:6443", []string{"10.0.0.100"} // which this node has at the moment
		}), []Reason{KubeconfigElsewhere}, "10.0.0.100:6443 is not the kube-apiserver of this node (10.0.0.1"},
		{"no kubeconfig", facts(func(f *Facts) { f.Kubeconfig.Err = gone }), []Reason{KubeconfigUnreadable}, "sidecar kubeadm"},
		{"a copy of super-admin.conf", facts(func(f *Facts) {
			f.Kubeconfig.User, f.Kubeconfig.Groups = "kubernetes-super-admin", []string{"system:masters"}
		}), []Reason{IdentityShared}, "super-admin.conf"},
		{"the identity of another node", facts(func(f *Facts) { f.Kubeconfig.User = "lockstep:cp-2" }), []Reason{IdentityShared}, "lockstep:cp-1"},
		{"a token", facts(func(f *Facts) { f.Kubeconfig.User, f.Kubeconfig.Groups = "", nil }), nil, ""},
		{"a certificate that expires", facts(func(f *Facts) { f.Certificates[0].Until = now.Add(ExpiresSoon - 1) }), []Reason{CertificateExpires}, "expires on 2026-12-22"},
		{"a certificate that has expired", facts(func(f *Facts) { f.Certificates[0].Until = now }), []Reason{CertificateExpires}, "has expired on 2026-11-22"},
		{
			"a file that others can change", facts(func(f *Facts) {
				f.Untrusted = []Untrusted{{"/l/env", "can be changed by every user (mode 0666)", "chmod o-w /l/env"}}
			}),
			[]Reason{FileUntrusted}, "it can be changed by every user (mode 0666), and with it what this node runs",
		},
		{"a file that cannot be read", facts(func(f *Facts) { f.Certificates[1].Unread = gone }), []Reason{FileUnreadable}, "no such file"},
		{"no bundle", facts(func(f *Facts) { f.BundleErr = gone }), []Reason{BundleInvalid}, "--bundle DIR"},
		{"no rights", facts(func(f *Facts) { f.Missing = []string{"list x", "create y"} }), []Reason{RightsMissing}, "may not: list x; create y"},
		{"no rights, and what to type", facts(func(f *Facts) { f.Missing = []string{"list x"} }), []Reason{RightsMissing}, "kubectl --kubeconfig /k/admin.conf --server https://10.0.0.1:6443 apply -k /etc/lockstep/cluster"},
		{"the API has just started", facts(func(f *Facts) { f.RightsErr, f.AskRefused = gone, true }), []Reason{APIUnreachable}, "ask again in some seconds: no such file"},
		{"the API does not answer", facts(func(f *Facts) { f.RightsErr = gone }), []Reason{APIUnreachable}, "unknown"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := clean(t)
			test.damage(t, &f)
			found := f.Check()
			var got []Reason
			for _, one := range found {
				got = append(got, one.Reason)
				if one.Where == "" || one.Message == "" || one.Remedy == "" {
					t.Errorf("a finding without place, message or remedy: %+v", one)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Fatalf("got %v, want %v: %+v", got, test.want, found)
			}
			if len(found) > 0 && !strings.Contains(found[0].Message+found[0].Remedy, test.text) {
				t.Errorf("got %+v, want %q", found[0], test.text)
			}
		})
	}
}

// kubeadm makes RSA keys by default, and others where its configuration asks for them.
func TestKubeconfig(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	rsaCert, ecCert := selfSigned(t, rsaKey.Public(), rsaKey), selfSigned(t, ecKey.Public(), ecKey)
	for name, ca := range map[string]struct{ cert, key []byte }{
		"RSA":   {rsaCert, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		"ECDSA": {ecCert, block("EC PRIVATE KEY", ecDER)},
		"PKCS8": {ecCert, block("PRIVATE KEY", pkcs8)},
	} {
		authority, err := ParseAuthority(ca.cert, ca.key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, until, err := authority.Kubeconfig("cp-1", "https://10.0.0.1:6443", now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cert := clientCertificate(t, text)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.cert)
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil || cert.Subject.CommonName != "lockstep:cp-1" || !slices.Equal(cert.Subject.Organization, []string{"lockstep:sidecars"}) {
			t.Errorf("%s: got %v, %v", name, cert.Subject, err)
		}
		if !until.Equal(cert.NotAfter) || until.After(now.Add(validity)) {
			t.Errorf("%s: got valid until %s, and in the certificate %s", name, until, cert.NotAfter)
		}
	}
	for want, ca := range map[string]struct{ cert, key []byte }{
		"private key type does not match public key type":  {rsaCert, block("PRIVATE KEY", pkcs8)},
		"failed to find any PEM data in key input":         {rsaCert, nil},
		"failed to find any PEM data in certificate input": {nil, pkcs8},
		"the CA: x509: malformed certificate":              {block("CERTIFICATE", []byte("x")), block("PRIVATE KEY", pkcs8)},
	} {
		if _, err := ParseAuthority(ca.cert, ca.key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func selfSigned(t *testing.T, public, private any) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(10 * validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der)
}

func clientCertificate(t *testing.T, kubeconfig []byte) *x509.Certificate {
	t.Helper()
	m := regexp.MustCompile(`client-certificate-data: (\S+)`).FindSubmatch(kubeconfig)
	if m == nil {
		t.Fatalf("got %s", kubeconfig)
	}
	text, err := base64.StdEncoding.DecodeString(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	decoded, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(decoded.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A manifest is as the settings have it only with the flags of kube-apiserver.
func TestSettings_AppliedTo(t *testing.T) {
	publishing := asEmbedded
	publishing.Args = []string{"--kubernetes-service"}
	for _, test := range []struct {
		name     string
		settings Settings
		from, to string // in the manifest
		want     bool
	}{
		{"as kubeadm writes it", asEmbedded, "", "", true},
		{"another image", Settings{Image: "other", Bundle: asEmbedded.Bundle}, "", "", false},
		{"another flag of the sidecar", publishing, "", "", false},
		{"without a flag of kube-apiserver", asEmbedded, "    - --shutdown-send-retry-after=true\n", "", false},
		{"an argument that the settings do not have", asEmbedded, "    - run\n", "    - run\n    - --unknown\n", false},
		{"without the sidecar", asEmbedded, "name: lockstep\n", "name: other\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := string(manifest(t))
			if !strings.Contains(text, test.from) {
				t.Fatalf("the manifest has no %q", test.from)
			}
			pod, err := ParsePod([]byte(strings.Replace(text, test.from, test.to, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := test.settings.AppliedTo(pod); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestKustomizations: each kustomization.yaml names all that is there, so that kubectl apply -k
// of either directory gives the same.
func TestKustomizations(t *testing.T) {
	entries, err := deploy.Kubeadm.ReadDir(directory + ClusterDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		if name := entry.Name(); name != "kustomization.yaml" {
			all = append(all, name)
		}
	}
	for file, want := range map[string][]string{"kustomization.yaml": {ClusterDir}, ClusterDir + "/kustomization.yaml": all} {
		content, err := os.ReadFile("../../deploy/kubeadm/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var k struct {
			Kind      string   `json:"kind"`
			Resources []string `json:"resources"`
		}
		if err := yaml.Unmarshal(content, &k); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if slices.Sort(k.Resources); k.Kind != "Kustomization" || !slices.Equal(k.Resources, want) {
			t.Errorf("%s: got the resources %q of kind %s, want %q", file, k.Resources, k.Kind, want)
		}
	}
}

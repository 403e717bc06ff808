package kubeadm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/netns"
)

// assetsVariable has the directory of the programs and images; make kubelet-test sets it.
const assetsVariable = "LOCKSTEP_KUBEADM_ASSETS"

// versions are what kubeadm installs, what it upgrades to (the same source with another
// stamp), and the tags of other images that it wants.
type versions struct{ first, next, etcd, pause string }

func readVersions(t *testing.T, assets string) versions {
	t.Helper()
	first := output(t, filepath.Join(assets, "kubelet"), "--version")
	out := versions{first: strings.TrimSpace(strings.TrimPrefix(first, "Kubernetes ")), next: strings.TrimSpace(output(t, filepath.Join(assets, "kubeadm"), "version", "-o", "short"))}
	list := output(t, filepath.Join(assets, "kubeadm"), "config", "images", "list", "--kubernetes-version", out.first, "--image-repository", repository)
	for line := range strings.Lines(list) {
		switch name, tag, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case repository + "/etcd":
			out.etcd = tag
		case repository + "/pause":
			out.pause = tag
		}
	}
	if out.etcd == "" || out.pause == "" || out.first == out.next {
		t.Fatalf("got %+v from %s", out, list)
	}
	return out
}

func output(t *testing.T, line ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(line, " "), err)
	}
	return string(out)
}

func assetsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		t.Skip("SKIPPED, NOT TESTED: needs kubeadm, kubelet, containerd and runc; run `make kubelet-test` as root")
	}
	for _, program := range []string{"containerd", "runc", "ctr", "conntrack", "socat", "ethtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: apt-get install --no-install-recommends containerd runc containernetworking-plugins conntrack socat ethtool buildah", err)
		}
	}
	return dir
}

// images writes the images that kubeadm wants, and returns their files.
func images(t *testing.T, assets string, v versions) []string {
	t.Helper()
	pause := filepath.Join(t.TempDir(), "pause")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", pause, "./pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out := []string{filepath.Join(assets, "lockstep.tar")}
	dir := t.TempDir()
	for _, image := range []struct{ name, tag, program string }{
		{"kube-apiserver", v.first, filepath.Join(assets, "kube-apiserver")},
		{"kube-controller-manager", v.first, filepath.Join(assets, "kube-controller-manager")},
		{"kube-scheduler", v.first, filepath.Join(assets, "kube-scheduler")},
		{"kube-apiserver", v.next, filepath.Join(assets, "next", "kube-apiserver")},
		{"kube-controller-manager", v.next, filepath.Join(assets, "next", "kube-controller-manager")},
		{"kube-scheduler", v.next, filepath.Join(assets, "next", "kube-scheduler")},
		{"etcd", v.etcd, filepath.Join(assets, "etcd")}, // the program is of the version that this repository uses
		{"pause", v.pause, pause},
	} {
		file := filepath.Join(dir, image.name+"-"+image.tag+".tar")
		if err := writeImage(file, repository+"/"+image.name+":"+image.tag, image.program, image.name); err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}

// What the page has, and what the tests use in its place.
const (
	pageImage        = "registry.example.com/lockstep:1.0.0"
	pageNextImage    = "registry.example.com/lockstep:1.1.0"
	ownImage         = repository + "/lockstep:1.0.0"
	patches          = "/etc/lockstep/patches"
	skipControlPlane = "--skip-phases=control-plane"
	socket           = "unix:///run/containerd/containerd.sock"
	// forUpgrade is what kubeadm upgrade needs on a machine for tests.
	forUpgrade = " --skip-phases addon --ignore-preflight-errors SystemVerification,CoreDNSUnsupportedPlugins,CoreDNSMigration"
)

// machineFlags are what kubeadm init and join need on a machine for tests, without a registry.
func (n *Node) machineFlags() string {
	return " --cri-socket " + socket + " --apiserver-advertise-address " + n.machine.Address.String() + " --ignore-preflight-errors SystemVerification"
}

// writeKubeletPatch writes a patch of the user's own, beside those of sidecar kubeadm. It has
// what a machine with cgroup v1 and without systemd needs. Disks of machines for tests are
// full, and no registry has the images: the kubelet must not remove them.
func (n *Node) writeKubeletPatch() {
	n.t.Helper()
	n.Write(patches+"/kubeletconfiguration+merge.yaml", `cgroupDriver: cgroupfs
cgroupRoot: /`+n.cgroup+`
failCgroupV1: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
`)
}

// bundleOf is a bundle for a node. In the end, only nodes of its release fit its objects.
func bundleOf(n *Node, release string) string {
	dir := "/etc/bundle-" + release
	n.Write(dir+"/bundle.yaml", "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: platform}\nrelease: "+release+"\nminApiserverRelease: "+release+"\n")
	n.Write(dir+"/priority.yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: platform}\nvalue: 1000\ndescription: of release "+release+"\n")
	return dir
}

// podState is kube-apiserver's pod as the kubelet reports it.
type podState struct {
	Ready      bool
	Containers map[string]containerState
	Image      string // of kube-apiserver
}

type containerState struct {
	Ready    bool
	Restarts int
}

func (n *Node) pod() (podState, error) {
	text, err := n.Try("kubectl", "--server", n.server(), "get", "pod", "-n", "kube-system", "kube-apiserver-"+n.Name, "-o", "json")
	if err != nil {
		return podState{}, err
	}
	var pod struct {
		Spec struct {
			Containers []struct{ Name, Image string }
		}
		Status struct {
			Conditions        []struct{ Type, Status string }
			ContainerStatuses []struct {
				Name         string
				Ready        bool
				RestartCount int
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		return podState{}, err
	}
	out := podState{Containers: map[string]containerState{}, Image: pod.Spec.Containers[0].Image}
	for _, c := range pod.Status.Conditions {
		out.Ready = out.Ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, c := range pod.Status.ContainerStatuses {
		out.Containers[c.Name] = containerState{c.Ready, c.RestartCount}
	}
	return out, nil
}

func (n *Node) server() string { return "https://" + n.machine.Address.String() + ":6443" }

// wantPod waits until the pod is ready, or is not, and the sidecar's container with it.
func (n *Node) wantPod(ready bool) {
	n.t.Helper()
	n.Await(fmt.Sprintf("the pod to be ready=%t", ready), func() error {
		pod, err := n.pod()
		if c := pod.Containers["lockstep"]; err == nil && (pod.Ready != ready || c.Ready != ready || !pod.Containers["kube-apiserver"].Ready) {
			err = fmt.Errorf("got %+v", pod)
		}
		return err
	})
}

// wantGate waits until /readyz of the sidecar says something.
func (n *Node) wantGate(want string) {
	n.t.Helper()
	n.Await("the gate to say "+want, func() error {
		out, err := n.Try("curl", "-s", "-m", "5", "http://127.0.0.1:8086/readyz?verbose")
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("got %s", out)
		}
		return err
	})
}

// wantFinding requires that the check names something.
func (n *Node) wantFinding(reason string, args ...string) {
	n.t.Helper()
	out, err := n.Try(append([]string{"sidecar", "kubeadm", "--check"}, args...)...)
	if err == nil || !strings.Contains(out, ": "+reason+": ") {
		n.t.Errorf("got %v, %s; want %s", err, out, reason)
	}
}

// TestKubelet types what docs/kubeadm.md has on a node with a real kubeadm and a real
// kubelet: the pod is ready exactly while the gate is open, and the sidecar is there after
// kubeadm upgrade, with the next bundle. It is long, since each part needs the one before.
func TestKubelet(t *testing.T) {
	dir := assetsDir(t)
	if !netns.Enter(t) {
		return
	}
	v := readVersions(t, dir)
	network := netns.New(t, "cp-1")
	n := NewNode(t, Config{Machine: network.Machine("cp-1"), Assets: dir, Pause: v.pause})
	for _, file := range images(t, dir, v) {
		n.Import(file)
	}
	n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.0.0 --bundle ./bundle -- --listen=0.0.0.0:8086 --insecure-listen",
		pageImage, ownImage, "./bundle", bundleOf(n, "1.0.0"))
	n.writeKubeletPatch()
	n.Type("kubeadm init", "lb.example.com:6443", n.machine.Address.String()+":6443", "--upload-certs", "--upload-certs"+n.machineFlags()+
		" --kubernetes-version "+v.first+" --image-repository "+repository+" --pod-network-cidr 10.244.0.0/16 --skip-phases addon")
	n.wantPod(false)

	// The identity, and then the rights.
	n.Type("sidecar kubeadm")
	n.wantGate("StatusMissing")
	n.wantPod(false)
	n.wantFinding("RightsMissing")
	n.Type("kubectl --kubeconfig /etc/kubernetes/admin.conf --server", "https://10.0.0.1:6443", n.server())
	n.Type("sidecar wait-ready")
	n.wantPod(true)
	n.wantClean()
	n.otherAuthority()
	n.otherEtcd()
	n.damage()
	n.cordon()
	n.renew()
	n.killSidecar()
	n.wantProbes()
	removeSecond := n.exclude()
	n.upgrade(v.next)
	removeSecond()
	n.wantClean()
	n.leave()
	n.retrofit()
	n.service()
	n.scrape()
}

func (n *Node) wantClean() {
	n.t.Helper()
	if out := n.Type("sidecar kubeadm --check"); out != "node "+n.Name+": no problem found\n" {
		n.t.Errorf("got %s", out)
	}
}

// damage changes a copy of what kubeadm has written, and what the sidecar needs.
func (n *Node) damage() {
	n.t.Helper()
	const copied = "/etc/kubernetes.copy"
	for line, want := range map[string]string{
		"s/ name: lockstep$/ name: other/":                                                   "ContainerMissing",
		"s/ path: .readyz/ path: \\/healthz/":                                                "ProbeMissing",
		"s/delay-duration=15s/delay-duration=56s/":                                           "GraceTooShort",
		"/shutdown-delay-duration/d":                                                         "DelayMissing",
		"/shutdown-send-retry-after/d":                                                       "RetryAfterMissing",
		"s/- --secure-port=6443/- --endpoint-reconciler-type=none/":                          "EndpointsUnwritten",
		"s/--bundle=.*/--bundle=\\/etc\\/lockstep\\/nowhere/":                                "BundleInvalid",
		"s/--apiserver-readyz/--apiserver-redyz/":                                            "ArgumentsInvalid",
		"s/^    name: kube-apiserver$/&\\n    lifecycle: {preStop: {sleep: {seconds: 15}}}/": "PreStop",
	} {
		n.Shell("rm -rf " + copied + "; cp -a /etc/kubernetes " + copied + "; sed -i '" + line + "' " + copied + "/manifests/kube-apiserver.yaml")
		n.wantFinding(want, "--kubernetes-dir", copied)
	}
	for line, want := range map[string][2]string{
		"/etc/lockstep/kubeconfig": {"sed -i s/10.89.0.1:6443/10.89.0.254:6443/ /etc/lockstep/kubeconfig", "KubeconfigElsewhere"},
		"/etc/lockstep/patches":    {"rm -r /etc/lockstep/patches", "PatchUnreadable"},
		"/etc/lockstep/bundles":    {"rm -r /etc/lockstep/bundles", "BundleInvalid"},
	} {
		n.Shell("cp -a " + line + " " + line + ".saved; " + want[0])
		n.wantFinding(want[1])
		n.Shell("rm -rf " + line + "; mv " + line + ".saved " + line)
	}
	n.Shell("cp /etc/kubernetes/super-admin.conf /etc/lockstep/kubeconfig")
	n.wantFinding("IdentityShared")
	n.Type("sidecar kubeadm")
	n.wantClean()
}

// otherAuthority makes the kubeconfig as where the key of the CA is on another machine. The proxy
// keeps kubeadm from asking the internet for a version.
func (n *Node) otherAuthority() {
	n.t.Helper()
	n.Shell("HTTPS_PROXY=http://127.0.0.1:9 " + typedLine(n.t, "kubeadm kubeconfig user") + " > /etc/lockstep/kubeconfig")
	n.Shell("sed -i 's|server: .*|server: " + n.server() + "|' /etc/lockstep/kubeconfig")
	n.wantClean()
}

// otherEtcd writes the files for an etcd that is not kubeadm's, and does not use them.
func (n *Node) otherEtcd() {
	n.t.Helper()
	const dir = "/etc/lockstep-other"
	n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.0.0 --bundle ./bundle -- --etcd-servers",
		pageImage, ownImage, " -- ", " --dir="+dir+" -- ", "./bundle", bundleOf(n, "1.0.0"))
	n.Shell("grep -e --etcd-servers=https://10.0.0.9:2379$ " + dir + "/patches/* && grep -e --etcd-keyfile=/etc/lockstep/etcd.key$ " + dir + "/patches/*")
}

// cordon closes the gate by hand: the pod follows.
func (n *Node) cordon() {
	n.t.Helper()
	n.TypeWithEnv("sidecar cordon cp-1")
	n.wantGate("Cordoned")
	n.wantPod(false)
	n.TypeWithEnv("sidecar uncordon")
	n.wantPod(true)
}

// ofSidecar runs a line of shell for the process of the sidecar, as $p.
const ofSidecar = `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = sidecar ]; then %s; fi; done`

// renew renews the client certificate for etcd: the container has the new one at once, though
// it has only that file.
func (n *Node) renew() {
	n.t.Helper()
	const file = "/etc/kubernetes/pki/apiserver-etcd-client.crt"
	was := n.Run("cat", file)
	n.Run("kubeadm", "certs", "renew", "apiserver-etcd-client")
	inside := n.Shell(fmt.Sprintf(ofSidecar, "cat $p/root"+file))
	if now := n.Run("cat", file); inside != now || now == was {
		n.t.Errorf("got a certificate in the container that is not the new one (the node has a new one: %t)", now != was)
	}
}

// killSidecar kills the sidecar: the kubelet starts it again.
func (n *Node) killSidecar() {
	n.t.Helper()
	before, err := n.pod()
	n.must(err)
	n.Shell(fmt.Sprintf(ofSidecar, `kill -9 "${p#/proc/}"`))
	n.Await("the sidecar to be started again", func() error {
		now, err := n.pod()
		if err == nil && (now.Containers["lockstep"].Restarts <= before.Containers["lockstep"].Restarts || !now.Ready) {
			err = fmt.Errorf("got %+v, before %+v", now, before)
		}
		return err
	})
}

// wantProbes requires that the kubelet counts the probes, and reports those that failed.
func (n *Node) wantProbes() {
	n.t.Helper()
	for _, probe := range []string{"Readiness", "Liveness", "Startup"} {
		// The container was just started: its first probes are still to come.
		n.Await("a "+probe+" probe of the sidecar that the kubelet counts", func() error {
			metrics, err := n.Try("kubectl", "--server", n.server(), "get", "--raw", "/api/v1/nodes/"+n.Name+"/proxy/metrics/probes")
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, "prober_probe_total{") && strings.Contains(line, `container="lockstep"`) &&
					strings.Contains(line, `probe_type="`+probe+`"`) && strings.Contains(line, `result="successful"`) {
					return nil
				}
			}
			return cmp.Or(err, fmt.Errorf("got %s", metrics))
		})
	}
	events := n.Run("kubectl", "--server", n.server(), "get", "events", "-n", "kube-system", "-o", "wide")
	if !strings.Contains(events, "spec.containers{lockstep}") || !strings.Contains(events, "Readiness probe failed") {
		n.t.Errorf("the kubelet has reported no probe of the sidecar that failed:\n%s", events)
	}
}

// exclude lets a second node, of the next release, take over while this one is stopped, and raise
// the minimum. The gate of this one, and the pod with it, are closed by the status then. The
// second node is a sidecar only; the function that is returned removes it.
func (n *Node) exclude() (remove func()) {
	n.t.Helper()
	n.Run("systemctl", "stop", "kubelet") // it would start the sidecar again
	n.Shell(fmt.Sprintf(ofSidecar, `kill -9 "${p#/proc/}"`))
	second := n.command(context.Background(), "bash", "-euc", ". /etc/lockstep/env; exec sidecar run --node-id=cp-2 "+
		"--kubeconfig=/etc/kubernetes/super-admin.conf --listen=127.0.0.1:8090 --bundle="+bundleOf(n, "1.1.0"))
	n.must(cluster.StartCommand(second))
	go func() { _ = second.Wait() }() // it ends with the node, if not before
	forget := func(id string) {
		n.t.Helper()
		n.Await("the record of "+id+" to be removed", func() error {
			_, err := n.Try("bash", "-euc", ". /etc/lockstep/env; sidecar node remove "+id+" --confirm-stopped")
			return err
		})
	}
	forget(n.Name)
	n.Await("the minimum to be raised", func() error {
		out, err := n.Try("curl", "-s", "-m", "5", "http://127.0.0.1:8090/status")
		if err == nil && !strings.Contains(out, `"minimumCompatibleRelease": "1.1.0"`) {
			err = fmt.Errorf("got %s", out)
		}
		return err
	})
	n.Run("systemctl", "start", "kubelet")
	n.wantGate("ReleaseTooOld")
	n.wantPod(false)
	return func() {
		n.t.Helper()
		n.Shell("pkill -f '[n]ode-id=cp-2'")
		forget("cp-2")
	}
}

// watchGate asks /readyz as a load balancer does until stop is called, which returns how many
// answers there were, and how many of them were that the node may serve.
func (n *Node) watchGate() (stop func() (answers, ready int)) {
	ctx, cancel := context.WithCancel(n.t.Context())
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + net.JoinHostPort(n.machine.Address.String(), "8086") + "/readyz"
	var answers, ready int
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return
			}
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close() // its code is enough
				answers++
				if resp.StatusCode == http.StatusOK {
					ready++
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() (int, int) {
		cancel()
		<-done
		return answers, ready
	}
}

// upgrade upgrades the node: no load balancer sends a client there from the cordon until it
// ends, also while kubeadm restarts etcd, and when the new sidecar starts, which knows nothing
// yet. The sidecar is there afterwards, with the next bundle, and fits the objects again.
func (n *Node) upgrade(next string) {
	n.t.Helper()
	n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.1.0", pageNextImage, ownImage, "./bundle-1.1.0", bundleOf(n, "1.1.0"))
	n.wantFinding("PatchNotApplied")
	n.Type("kubectl --kubeconfig /etc/kubernetes/admin.conf apply")
	n.TypeWithEnv("sidecar cordon cp-1")
	stop := n.watchGate()
	n.Write("/etc/kubeadm-upgrade.yaml", pageConfig(n.t, "UpgradeConfiguration"))
	n.Shell("kubeadm upgrade apply " + next + " --yes --config /etc/kubeadm-upgrade.yaml" + forUpgrade)
	n.wantGate("Cordoned")
	if answers, ready := stop(); answers == 0 || ready > 0 {
		n.t.Errorf("%d of %d answers of /readyz were that the cordoned node may serve", ready, answers)
	}
	n.AwaitTyped("sidecar uncordon")
	n.Type("sidecar wait-ready")
	n.wantPod(true)
	if pod, err := n.pod(); err != nil || !strings.HasSuffix(pod.Image, ":"+next) {
		n.t.Errorf("got %+v, %v", pod, err)
	}
	n.wantClean()
	if out := n.Run("sidecar", "status"); !strings.Contains(out, "release 1.1.0") {
		n.t.Errorf("got %s", out)
	}
}

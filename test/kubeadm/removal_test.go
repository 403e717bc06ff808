package kubeadm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// leave takes Lockstep off the node by the commands of docs/kubeadm.md#remove.
func (n *Node) leave() {
	n.t.Helper()
	n.TypeWithEnv("sidecar cordon cp-3", "cp-3", n.Name+" --force") // it is the last one
	n.Type("rm /etc/lockstep/patches")
	n.Type("kubeadm upgrade node --etcd-upgrade=false", patches, patches+forUpgrade)
	n.Await("the pod without the sidecar", func() error {
		pod, err := n.pod()
		if err == nil && (len(pod.Containers) != 1 || !pod.Ready) {
			err = fmt.Errorf("got %+v", pod)
		}
		return err
	})
	n.TypeWithEnv("sidecar node remove", "cp-3", n.Name)
	if out := n.Shell(". /etc/lockstep/env; sidecar node list"); strings.Contains(out, n.Name) {
		n.t.Errorf("the node has a record: %s", out)
	}
	n.Type("rm -r /etc/lockstep")
}

// retrofit gives the node, until then one of plain kubeadm, a sidecar by the commands of
// docs/kubeadm.md#a-cluster-that-runs.
func (n *Node) retrofit() {
	n.t.Helper()
	n.Type("sidecar kubeadm --image registry.example.com/lockstep:1.0.0 --bundle ./bundle -- --listen=0.0.0.0:8086 --insecure-listen",
		pageImage, ownImage, "./bundle", bundleOf(n, "1.1.0"))
	n.writeKubeletPatch()
	n.Type("kubectl --kubeconfig /etc/kubernetes/admin.conf apply")
	n.applyPatches()
}

// applyPatches lets kubeadm apply the patches, and waits for the gate.
func (n *Node) applyPatches() {
	n.t.Helper()
	n.Type("kubeadm upgrade node --etcd-upgrade=false", patches, patches+forUpgrade)
	n.wantGated()
}

// wantGated waits for the gate of a pod that was just made.
func (n *Node) wantGated() {
	n.t.Helper()
	n.Type("sidecar wait-ready")
	n.wantClean()
	n.wantPod(true)
}

// service turns --kubernetes-service on and off by the commands of docs/kubeadm.md#pods; off with
// the file for kubeadm upgrade.
func (n *Node) service() {
	n.t.Helper()
	n.Type("sidecar kubeadm -- --kubernetes-service")
	n.applyPatches()
	n.Await("Lockstep to write the Service kubernetes", func() error {
		text, err := n.Try("sidecar", "status", "-o", "json")
		if err != nil {
			return err
		}
		var status struct {
			KubernetesService struct {
				Reason    string
				Addresses []string
			}
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		slice, err := n.addresses("{.metadata.annotations.lockstep\\.dev/revision} {.endpoints[*].addresses}")
		k := status.KubernetesService
		revision, has, _ := strings.Cut(slice, " ")
		own := n.machine.Address.String()
		if err == nil && (k.Reason != "Published" || !slices.Equal(k.Addresses, []string{own}) || has != `["`+own+`"]` || revision == "") {
			err = fmt.Errorf("got %+v, and the slice has %q", k, slice)
		}
		return err
	})

	// kube-apiserver itself writes an address again that another one replaced.
	n.Type("sidecar kubeadm -- --kubernetes-service", "--kubernetes-service", "--kubernetes-service=false")
	n.Write("/etc/kubeadm-upgrade.yaml", pageConfig(n.t, "UpgradeConfiguration", "\nnode: {", "\nnode: {etcdUpgrade: false, certificateRenewal: false, "))
	n.Shell("kubeadm upgrade node --config /etc/kubeadm-upgrade.yaml" + forUpgrade)
	n.wantGated()
	n.Run("kubectl", "patch", "endpointslice", "kubernetes", "--type=json", "-p", `[{"op": "replace", "path": "/endpoints/0/addresses/0", "value": "192.0.2.1"}]`)
	n.Await("kube-apiserver to write the Service kubernetes", func() error {
		slice, err := n.addresses("{.endpoints[*].addresses}")
		if err == nil && slice != `["`+n.machine.Address.String()+`"]` {
			err = fmt.Errorf("the slice has %s", slice)
		}
		return err
	})
}

// addresses reads the slice of the Service kubernetes.
func (n *Node) addresses(path string) (string, error) {
	return n.Try("kubectl", "--server", n.server(), "get", "endpointslice", "kubernetes", "-o", "jsonpath="+path)
}

// scrape lets the node serve HTTPS by docs/kubeadm.md#scraping, and reads its metrics as the
// PodMonitor lets Prometheus do: with the CA of each namespace and the name in the certificate,
// by the token of the ServiceAccount, and by no other token.
func (n *Node) scrape() {
	n.t.Helper()
	n.Type("sidecar kubeadm --https")
	n.Type("kubectl --kubeconfig /etc/kubernetes/admin.conf apply")
	n.Type("kubeadm upgrade node --etcd-upgrade=false", patches, patches+forUpgrade)
	n.TypeWithEnv("sidecar wait-ready")
	n.wantClean()
	n.wantPod(true)
	n.Shell("kubectl -n default get configmap kube-root-ca.crt -o jsonpath='{.data.ca\\.crt}' > /run/scrape-ca.crt")
	const scrape = "curl -sS -m 5 -o /run/scraped -w '%{http_code}' --cacert /run/scrape-ca.crt --connect-to lockstep.kube-system.svc:8086:"
	const url = ":8086 https://lockstep.kube-system.svc:8086/metrics"
	scrapeAs := func(header string) string {
		return n.Shell(scrape + n.machine.Address.String() + url + header)
	}
	const token = ` -H "Authorization: Bearer $(kubectl -n kube-system get secret lockstep-scraper -o jsonpath='{.data.token}' | base64 -d)"`
	if code := scrapeAs(token); code != "200" {
		n.t.Errorf("Prometheus got %s: %s", code, n.Run("cat", "/run/scraped"))
	}
	if metrics := n.Run("cat", "/run/scraped"); !strings.Contains(metrics, "\nlockstep_readyz 1\n") {
		n.t.Errorf("Prometheus got %s", metrics)
	}
	if code := scrapeAs(""); code != "401" {
		n.t.Errorf("without a token: got %s, want 401", code)
	}
	const foreign = ` -H "Authorization: Bearer $(kubectl -n default create token default)"`
	if code := scrapeAs(foreign); code != "403" {
		n.t.Errorf("with the token of a ServiceAccount without the right: got %s, want 403", code)
	}
}

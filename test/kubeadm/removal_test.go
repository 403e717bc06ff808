package kubeadm

import (
	"fmt"
	"strings"
)

// leave takes Lockstep off the node, as docs/kubeadm.md#remove has it.
func (n *Node) leave() {
	n.t.Helper()
	n.Shell(". /etc/lockstep/env; sidecar cordon " + n.Name + " --force")
	n.Shell("rm /etc/lockstep/patches/kube-apiserver*")
	n.Run("kubeadm", "upgrade", "node", "--etcd-upgrade=false", "--certificate-renewal=false", "--patches", "/etc/lockstep/patches",
		"--skip-phases", "addon", "--ignore-preflight-errors", "SystemVerification,CoreDNSUnsupportedPlugins,CoreDNSMigration")
	n.Await("the pod without the sidecar", func() error {
		pod, err := n.pod()
		if err == nil && (len(pod.Containers) != 1 || !pod.Ready) {
			err = fmt.Errorf("got %+v", pod)
		}
		return err
	})
	n.Shell(". /etc/lockstep/env; sidecar node remove " + n.Name + " --confirm-stopped")
	if out := n.Shell(". /etc/lockstep/env; sidecar node list"); strings.Contains(out, n.Name) {
		n.t.Errorf("the node has a record: %s", out)
	}
	n.Shell("rm -r /etc/lockstep")
}

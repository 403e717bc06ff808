package e2e_test

import (
	"encoding/json"
	"path/filepath"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// etcdAuthorityWrong runs a kube-apiserver, as a service of cp-2, whose --etcd-cafile is the CA of
// another cluster. It runs for 20 s before it ends, and asks etcd again and again meanwhile. A
// kube-apiserver that serves plays an etcd with TLS.
func etcdAuthorityWrong(b *broken) {
	dir := b.bundle("bundle", one)
	b.start("cp-1", dir)
	b.ready("cp-1")
	const service = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: kube-apiserver}\nrole: kubernetes_controller\nrestart: immediately\nprocess: {command: "
	file := b.service("cp-2", dir, service+"[/bin/sleep, \"9000000\"]}\n")

	addr, err := etcdtest.FreeAddr()
	b.must(err)
	args, err := b.c.APIServerArgs(addr, b.api.URL())
	b.must(err)
	other := cluster.NewForTest(b.T, "kube-apiserver")
	admin := b.api.Config()
	command := append([]string{filepath.Join(cluster.Assets(b.T, "kube-apiserver"), "kube-apiserver")}, args...)
	command = append(command, "--etcd-cafile="+other.Authority(), "--etcd-certfile="+admin.CertFile, "--etcd-keyfile="+admin.KeyFile)
	line, err := json.Marshal(command)
	b.must(err)
	b.write(file, service+string(line)+"}\nreadiness: {tcpSocket: {address: \""+addr+"\"}}\n")

	const cause = "x509: certificate signed by unknown authority"
	b.says("cp-2", "GATE|ready", "kube-apiserver|no", "NOT READY  why", "| |"+cause, "its file: "+file+", changed |ago")
	for _, node := range []string{"cp-1", "cp-2"} {
		b.says(node, "WARNINGS", `cp-2|its service "kube-apiserver" ended (exit status 1) and is not ready again|its file: `+file,
			"UPGRADE|do not start the next upgrade: cp-2: ")
	}
}

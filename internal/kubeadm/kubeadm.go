// Package kubeadm makes the files that a node of kubeadm needs for a sidecar, and checks such
// a node (docs/kubeadm.md): patches for kube-apiserver's static pod, the objects with the
// sidecar's rights, an identity for each node, and a check that names the problems of a node.
// It reads and writes no file and sends no request: callers pass the contents and the facts.
// It starts no goroutine.
package kubeadm

import (
	"bytes"
	"io/fs"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/deploy"
)

// The directories and files below the directory of Lockstep on a node.
const (
	PatchesDir     = "patches"        // for kubeadm --patches
	ClusterDir     = "cluster"        // for kubectl apply -k
	BundlesDir     = "bundles"        // one directory for each release
	KubeconfigFile = "kubeconfig"     // with the identity of the node
	EnvFile        = "env"            // for the commands of sidecar on the node
	SumsFile       = "written.sha256" // the digests of the files that sidecar kubeadm wrote, for sha256sum -c
	BundleRights   = "bundle-rights.yaml"
	PodPatch       = "kube-apiserver1+strategic.yaml"
	FlagsPatch     = "kube-apiserver0+json.yaml"
)

// DefaultDir is the directory of Lockstep on a node, in the patch too.
const DefaultDir = "/etc/lockstep"

// Container is the name of the sidecar in kube-apiserver's pod.
const Container = "lockstep"

// Group is the group of all sidecars' users. User returns a node's user.
const Group = "lockstep:sidecars"

// User returns the name of a node's sidecar, for the API.
func User(node string) string { return "lockstep:" + node }

// directory is where package deploy keeps the files of this package.
const directory = "kubeadm/"

// Files returns the files that a node needs, by their paths below the directory of
// Lockstep: all except its bundles, their rights, and its kubeconfig.
func (s Settings) Files() map[string][]byte {
	out := map[string][]byte{EnvFile: s.Environment()}
	for _, dir := range []string{PatchesDir, ClusterDir, MonitoringDir} {
		names, err := fs.Glob(deploy.Kubeadm, directory+dir+"/*.yaml")
		must(err)
		for _, name := range names {
			name = strings.TrimPrefix(name, directory)
			out[name] = embedded(name)
		}
	}
	out[PatchesDir+"/"+PodPatch] = s.Patch()
	kustomization := ClusterDir + "/kustomization.yaml"
	out[kustomization] = bytes.Replace(out[kustomization], []byte("[rbac.yaml, "), []byte("[rbac.yaml, "+BundleRights+", "), 1)
	if s.writesService() {
		out[PatchesDir+"/"+FlagsPatch] = append(out[PatchesDir+"/"+FlagsPatch], endpointsFlag...)
	}
	return out
}

// OwnRights returns the manifests of the rights that Lockstep itself needs, for a group.
func OwnRights(group string) []byte {
	return bytes.ReplaceAll(embedded(ClusterDir+"/rbac.yaml"), []byte(`"`+Group+`"`), []byte(scalar(group)))
}

// endpointsFlag is added to FlagsPatch where the sidecar runs with --kubernetes-service.
const endpointsFlag = `# The sidecars write the addresses of the Service kubernetes.
- {op: add, path: /spec/containers/0/command/-, value: --endpoint-reconciler-type=none}
`

func (s Settings) writesService() bool {
	writes, err := strconv.ParseBool(flagOf(s.RunArgs(), "kubernetes-service"))
	return err == nil && writes
}

func embedded(name string) []byte {
	content, err := deploy.Kubeadm.ReadFile(directory + name)
	must(err)
	return content
}

// must is for errors that only a fault in the embedded files can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

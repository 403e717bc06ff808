// Package bundles has the commands about a bundle and its rollout: sidecar bundle and
// plan, and service, which validates the files of services. It reads directories, the
// fleet in etcd and, through a kubeconfig, the objects of a cluster. It writes only
// the permission of bundle replace: whether objects are applied, leaders decide.
package bundles

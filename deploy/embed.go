// Package deploy keeps the files of this directory that the sidecar writes for others.
package deploy

import "embed"

// Kubeadm is the files of directory kubeadm: patches for kube-apiserver's static pod, the objects of the
// cluster's side, and how Prometheus finds the sidecars (docs/kubeadm.md).
//
//go:embed kubeadm/patches/*.yaml kubeadm/cluster/*.yaml kubeadm/monitoring/*.yaml
var Kubeadm embed.FS

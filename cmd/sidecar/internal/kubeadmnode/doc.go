// Package kubeadmnode is the command sidecar kubeadm: it reads a node of kubeadm,
// writes the files for a sidecar there, prints the commands to type next, and reports
// what is wrong. The contents of the files, and the decisions about a node, are in
// internal/kubeadm, which has no I/O. It never runs kubeadm or kubectl.
package kubeadmnode

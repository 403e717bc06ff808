// Package upstream holds this program to the etcd and the kube-apiserver that it
// is built against. Each test is one behaviour of theirs, checked against the
// real thing: either we rely on it (then a failure means that something of ours
// is no longer safe), or we work around it (then a failure means that the
// work-around can go). docs/upstream.md lists them.
//
// There is nothing here but tests. They are the only place that may use the etcd
// client's package concurrency, which nothing that ships does (docs/adr/0002).
// Those about the Kubernetes API need a kube-apiserver (LOCKSTEP_E2E_ASSETS).
package upstream

// Package balancers contains the parts that the tests and the benchmark of load balancers
// share: the configurations of docs/load-balancers.md as they are on the page, nodes to put
// behind them, and clients that count their results.
//
// Each node is a kube-apiserver and a sidecar at an address of their own, with the ports
// that the page names. The kube-apiserver's certificate carries the node and its release as
// its name, so each answer shows which release gave it.
package balancers

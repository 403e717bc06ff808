package protocol

// Endpoint is where clients of the Service kubernetes reach the kube-apiserver of a
// node, from the node's presence. The zero value: its sidecar does not take part
// (--kubernetes-service).
type Endpoint struct {
	Address   string // an IP; empty: the sidecar does not take part
	Secondary string // an IP of the other family; empty: none
	Port      int
	// Down: the kube-apiserver is not ready, according to --apiserver-readyz.
	Down bool
}

// TakesPart reports whether the sidecar of the node writes the Service.
func (e Endpoint) TakesPart() bool { return e.Address != "" }

package httpapi

import (
	"time"

	"github.com/lockstep-dev/lockstep/protocol"
)

// KubernetesService describes the addresses of the Service kubernetes, and the reason for them
// (docs/protocol.md#kubernetes-service).
type KubernetesService struct {
	Enabled   bool // --kubernetes-service
	Reason    protocol.Reason
	Message   string
	Since     time.Time // when Reason last changed
	Problem   string    // why this sidecar cannot read or write the Service; empty: it can
	Revision  int64     // of etcd, at which its addresses were ready; 0: Lockstep did not write them
	Addresses []string
	Nodes     []protocol.ServiceNode
}

// KubernetesServiceReport is KubernetesService in /status.
type KubernetesServiceReport struct {
	Enabled   bool                `json:"enabled"`
	Reason    string              `json:"reason"`
	Message   string              `json:"message"`
	Since     *time.Time          `json:"since"`
	Problem   string              `json:"problem"`
	Revision  int64               `json:"revision"`
	Addresses []string            `json:"addresses"`
	Nodes     []ServiceNodeReport `json:"nodes"`
}

// ServiceNodeReport is a controller, and whether its addresses belong into the Service.
type ServiceNodeReport struct {
	ID        string   `json:"id"`
	Addresses []string `json:"addresses"`
	Port      int      `json:"port"`
	Serves    bool     `json:"serves"`
	Reason    string   `json:"reason"`
	Message   string   `json:"message"`
}

func kubernetesServiceReport(s Snapshot) KubernetesServiceReport {
	k := s.KubernetesService
	out := KubernetesServiceReport{
		Enabled: k.Enabled, Reason: string(k.Reason), Message: s.pasteable(k.Message), Since: timestamp(k.Since), Problem: k.Problem,
		Revision: k.Revision, Addresses: list(k.Addresses), Nodes: make([]ServiceNodeReport, 0, len(k.Nodes)),
	}
	for _, n := range k.Nodes {
		addresses := []string{}
		for _, address := range []string{n.Endpoint.Address, n.Endpoint.Secondary} {
			if address != "" {
				addresses = append(addresses, address)
			}
		}
		out.Nodes = append(out.Nodes, ServiceNodeReport{
			ID: string(n.ID), Addresses: addresses, Port: n.Endpoint.Port,
			Serves: n.Serves, Reason: string(n.Reason), Message: s.pasteable(n.Message),
		})
	}
	return out
}

package lockstep

import (
	"net/netip"

	"github.com/lockstep-dev/lockstep/protocol/publish"
)

// checkService checks the fields for writing the Service kubernetes.
func (o Options) checkService(p *problems) {
	const field, flag = "APIServerAddress", "apiserver-address"
	if len(o.APIServerAddress) > 0 && !o.KubernetesService {
		p.add(field, flag, "has no effect without the Service kubernetes: set --kubernetes-service too, or leave it out")
	}
	if len(o.APIServerAddress) > 2 {
		p.add(field, flag, "%d addresses: must be one, or one IPv4 and one IPv6 address", len(o.APIServerAddress))
		return
	}
	for i, text := range o.APIServerAddress {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			p.add(field, flag, "%q: must be an IP address", text)
		case ip.Zone() != "" || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip.Is4In6():
			p.add(field, flag, "%q: must be an address at which pods on other machines reach this node's kube-apiserver", text)
		case i > 0 && publish.FamilyOf(text) == publish.FamilyOf(o.APIServerAddress[0]):
			p.add(field, flag, "%q and %q are of one family: must be one address, or one IPv4 and one IPv6 address", o.APIServerAddress[0], text)
		}
	}
}

package lockstep

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lockstep-dev/lockstep/protocol"
)

// idLetters describes a DNS subdomain.
const idLetters = "lower-case letters, digits, hyphens and dots only, a letter or a digit at both ends of each part, and at most 253 characters"

func (o Options) checkNode(p *problems) {
	if o.NodeID != "" && len(validation.IsDNS1123Subdomain(o.NodeID)) > 0 {
		p.add("NodeID", "node-id", "%.100q: must be like a host name, such as cp-1: %s", o.NodeID, idLetters)
	}
	if o.AdvertiseURL != "" && !isWebURL(o.AdvertiseURL) {
		p.add("AdvertiseURL", "advertise-url", "%q: must be http://HOST:PORT or https://HOST:PORT", o.AdvertiseURL)
	}
}

// nodeID returns NodeID, or the host name if that is a valid ID.
func (o Options) nodeID() (protocol.NodeID, error) {
	if o.NodeID != "" {
		return protocol.NodeID(o.NodeID), nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", &OptionError{Field: "NodeID", Flag: "node-id", Problem: fmt.Sprintf("required, since the host name is unknown: %v", err)}
	}
	host = strings.ToLower(host)
	if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return "", &OptionError{Field: "NodeID", Flag: "node-id", Problem: fmt.Sprintf("required, since the host name %q is not a DNS subdomain", host)}
	}
	return protocol.NodeID(host), nil
}

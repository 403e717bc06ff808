package app

import (
	"net"
	"strings"
	"testing"

	"github.com/lockstep-dev/lockstep/protocol"
)

// ownIP is an address of this machine that the Service may have.
func ownIP(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("SKIPPED, NOT TESTED: this machine has no address besides loopback")
	return ""
}

func TestEndpointOf(t *testing.T) {
	own := ownIP(t)
	for _, tc := range []struct {
		name, server string
		flag         []string
		want         protocol.Endpoint
		problem      string
	}{
		{"the server", "https://" + own + ":6443", nil, protocol.Endpoint{Address: own, Port: 6443}, ""},
		{"no port", "https://" + own, nil, protocol.Endpoint{Address: own, Port: 443}, ""},
		{"the flag", "https://127.0.0.1:6444", []string{"10.0.0.1"}, protocol.Endpoint{Address: "10.0.0.1", Port: 6444}, ""},
		{"both families", "https://127.0.0.1:6444", []string{"fd00::0001", "10.0.0.1"}, protocol.Endpoint{Address: "fd00::1", Secondary: "10.0.0.1", Port: 6444}, ""},
		{"loopback", "https://127.0.0.1:6443", nil, protocol.Endpoint{}, "is not an address that other machines reach"},
		{"a name", "https://localhost:6443", nil, protocol.Endpoint{}, "is not an IP address"},
		{"a load balancer", "https://192.0.2.1:6443", nil, protocol.Endpoint{}, "is not an address of this machine"},
	} {
		got, err := endpointOf(Config{Kubeconfig: "k", APIServerAddress: tc.flag}, tc.server)
		if got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
		switch {
		case tc.problem == "" && err == nil:
		case tc.problem == "" || err == nil:
			t.Errorf("%s: got %v", tc.name, err)
		default:
			want := "--kubernetes-service: the server " + tc.server + ` of kubeconfig "k" ` + tc.problem + "; type --apiserver-address=IP"
			if !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", tc.name, err, want)
			}
		}
	}
}

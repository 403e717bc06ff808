package lockstep

import (
	"net"
	"strings"
	"time"
)

func (o Options) checkListen(p *problems) {
	switch {
	case o.TLSCertFile != "" && o.TLSKeyFile == "":
		p.add("TLSCertFile", "tls-cert-file", "has no key: set --tls-private-key-file too")
	case o.TLSCertFile == "" && o.TLSKeyFile != "":
		p.add("TLSKeyFile", "tls-private-key-file", "has no certificate: set --tls-cert-file too")
	}
	if o.ClientCAFile != "" && o.TLSCertFile == "" {
		p.add("ClientCAFile", "client-ca-file", "needs TLS: set --tls-cert-file too")
	}
	if o.Listen == "" {
		if o.TLSCertFile != "" {
			p.add("TLSCertFile", "tls-cert-file", "has no effect without a listener: set --listen too")
		}
		return
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		p.add("Listen", "listen", "%q: must be HOST:PORT", o.Listen)
		return
	}
	if !o.listensOnLoopback() && o.TLSCertFile == "" && !o.InsecureListen {
		p.add("Listen", "listen", "%q: other machines would reach this address without TLS: set --tls-cert-file, or allow it with --insecure-listen", o.Listen)
	}
}

// maxReviewTTL bounds how long a revoked right still counts while the kube-apiserver answers.
const maxReviewTTL = 10 * time.Minute

func (o Options) checkReviews(p *problems) {
	switch {
	case o.AuthenticationKubeconfig != "" && o.AuthorizationKubeconfig == "":
		p.add("AuthenticationKubeconfig", "authentication-kubeconfig", "every ServiceAccount of the cluster could read everything: set --authorization-kubeconfig too, to the same file for example")
	case o.AuthorizationKubeconfig != "" && o.AuthenticationKubeconfig == "" && o.ClientCAFile == "":
		p.add("AuthorizationKubeconfig", "authorization-kubeconfig", "no client could say who it is: set --authentication-kubeconfig for tokens, or --client-ca-file for certificates")
	case o.AuthorizationKubeconfig != "" && o.AnonymousStatus:
		p.add("AnonymousStatus", "anonymous-status", "contradicts --authorization-kubeconfig: to let all clients read some paths, name them in --authorization-always-allow-paths")
	}
	if o.AuthenticationKubeconfig != "" && o.TLSCertFile == "" && o.Listen != "" && !o.listensOnLoopback() {
		p.add("AuthenticationKubeconfig", "authentication-kubeconfig", "tokens would cross the network unencrypted: set --tls-cert-file and --tls-private-key-file")
	}
	for _, ttl := range []struct {
		field, flag string
		value       time.Duration
	}{
		{"TokenCacheTTL", "authentication-token-webhook-cache-ttl", o.TokenCacheTTL},
		{"AuthorizedCacheTTL", "authorization-webhook-cache-authorized-ttl", o.AuthorizedCacheTTL},
		{"UnauthorizedCacheTTL", "authorization-webhook-cache-unauthorized-ttl", o.UnauthorizedCacheTTL},
	} {
		if ttl.value < 0 || ttl.value > maxReviewTTL {
			p.add(ttl.field, ttl.flag, "%s: must be more than 0 and at most %s", ttl.value, maxReviewTTL)
		}
	}
	for _, path := range o.AuthorizationAlwaysAllowPaths {
		if !strings.HasPrefix(path, "/") || strings.Contains(strings.TrimSuffix(path, "*"), "*") {
			p.add("AuthorizationAlwaysAllowPaths", "authorization-always-allow-paths", "%q: must begin with a slash, and may have one asterisk, at its end", path)
		}
	}
}

// listensOnLoopback reports whether only this machine reaches Listen.
func (o Options) listensOnLoopback() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/httpapi"
)

// Options is everything that a sidecar can be told. The zero value of a field
// means what its comment says; Defaults has the values of the command line.
type Options struct {
	// NodeID names the node, a DNS subdomain. Empty: the host name.
	NodeID string
	// AdvertiseURL is where others reach this sidecar's listener; it is shown
	// in /status only. Empty: derived from Listen.
	AdvertiseURL string

	EtcdServers  []string // URLs; at least one
	EtcdCAFile   string   // PEM; empty: the system's roots
	EtcdCertFile string   // PEM, with EtcdKeyFile; empty: no client certificate
	EtcdKeyFile  string
	EtcdPrefix   string // of all keys; a missing slash at the end is added

	// Kubeconfig is the file that leads to the local apiserver (DESIGN 4.7).
	Kubeconfig string
	// Bundle is the bundle's directory. Empty: the built-in bundle.
	Bundle string

	Listen         string // host:port; port 0: any free one
	InsecureListen bool   // allow Listen beyond loopback without TLS
	TLSCertFile    string // PEM, with TLSKeyFile; empty: plain HTTP
	TLSKeyFile     string
	ClientCAFile   string // PEM; empty: clients need no certificate

	LeaseTTL         time.Duration // of presence and candidacy; whole seconds, at least 3 s
	ShutdownDelay    time.Duration // between a failing /readyz and the exit; 0: as soon as leadership is given up
	ResyncInterval   time.Duration // between two full passes; at least 1 s
	LeaderYieldAfter time.Duration // how long a leader bears that its apiserver is out of reach (4.7)
	// ExpireDeadNodes is how long this node may be gone before leaders pass over
	// its record (4.9); above four times LeaseTTL. 0: they never do.
	ExpireDeadNodes  time.Duration
	ApplyConcurrency int // requests at once within a wave; at least 1

	// AllowMassPrune lifts the brake on removing more than half of a set (6.3).
	AllowMassPrune bool
	// APIServerReadyz adds the check `apiserver` to /readyz.
	APIServerReadyz bool

	// Flags are shown by /flagz as they are; nil: none. Nothing rests on them.
	Flags []httpapi.Flag
}

// Defaults returns the options of a command line without flags.
func Defaults() Options {
	return Options{
		EtcdServers:      []string{"http://127.0.0.1:2379"},
		EtcdPrefix:       "/lockstep/",
		Listen:           "127.0.0.1:8086",
		LeaseTTL:         10 * time.Second,
		ShutdownDelay:    0,
		ResyncInterval:   10 * time.Minute,
		LeaderYieldAfter: 30 * time.Second,
		ApplyConcurrency: 16,
	}
}

// minLeaseTTL is what is left of a lease after the margin of one second and
// etcd's own minimum of two (FACTS 1.1).
const minLeaseTTL = 3 * time.Second

// fencingLeases is how many lifetimes of a lease ExpireDeadNodes has to exceed:
// an etcd that is away for less than two of them closes no gate.
const fencingLeases = 4

// Validate returns all that is wrong with the options, one error a line, or
// nil. It reads no file.
func (o Options) Validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if o.NodeID != "" && !isSubdomain(o.NodeID) {
		bad("node-id", "%q is not a DNS subdomain (lower case letters, digits, '-' and '.', at most 253 characters)", o.NodeID)
	}
	if o.AdvertiseURL != "" && !isWebURL(o.AdvertiseURL) {
		bad("advertise-url", "%q: want http://HOST:PORT or https://HOST:PORT", o.AdvertiseURL)
	}
	o.validateEtcd(bad)
	o.validateListen(bad)
	if o.Kubeconfig == "" {
		bad("kubeconfig", "is needed: the kubeconfig that leads to this node's own apiserver")
	}
	if o.LeaseTTL < minLeaseTTL || o.LeaseTTL%time.Second != 0 {
		bad("lease-ttl", "%s: want whole seconds, at least %s", o.LeaseTTL, minLeaseTTL)
	}
	if o.ResyncInterval < time.Second {
		bad("resync-interval", "%s: want at least 1s", o.ResyncInterval)
	}
	if o.LeaderYieldAfter <= 0 {
		bad("leader-yield-after", "%s: want more than 0", o.LeaderYieldAfter)
	}
	if least := fencingLeases * o.LeaseTTL; o.ExpireDeadNodes < 0 || o.ExpireDeadNodes > 0 && o.ExpireDeadNodes <= least {
		bad("expire-dead-nodes", "%s: want 0 (never), or more than %s: this node closes its gate after half of it, and that has to be more than two lifetimes of its lease (--lease-ttl)", o.ExpireDeadNodes, least)
	}
	if o.ShutdownDelay < 0 {
		bad("shutdown-delay", "%s: want 0 or more", o.ShutdownDelay)
	}
	if o.ApplyConcurrency < 1 {
		bad("apply-concurrency", "%d: want at least 1", o.ApplyConcurrency)
	}
	return errors.Join(errs...)
}

// ValidateEtcd returns all that is wrong with the options about etcd, one error
// a line, or nil.
func (o Options) ValidateEtcd() error {
	var errs []error
	o.validateEtcd(func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	})
	return errors.Join(errs...)
}

// EtcdConfig returns how the options say to reach etcd.
func (o Options) EtcdConfig() etcd.Config {
	return etcd.Config{
		Endpoints: o.EtcdServers, Prefix: o.EtcdPrefix,
		CAFile: o.EtcdCAFile, CertFile: o.EtcdCertFile, KeyFile: o.EtcdKeyFile,
	}
}

func (o Options) validateEtcd(bad func(flag, format string, args ...any)) {
	if len(o.EtcdServers) == 0 {
		bad("etcd-servers", "is needed: one or more URLs, separated by commas")
	}
	for _, s := range o.EtcdServers {
		if !isWebURL(s) {
			bad("etcd-servers", "%q: want http://HOST:PORT or https://HOST:PORT", s)
		}
	}
	if (o.EtcdCertFile == "") != (o.EtcdKeyFile == "") {
		bad("etcd-certfile", "goes together with --etcd-keyfile")
	}
	if !strings.HasPrefix(o.EtcdPrefix, "/") || strings.Trim(o.EtcdPrefix, "/") == "" {
		bad("etcd-prefix", "%q: want a name of its own that begins with a slash, like /lockstep/", o.EtcdPrefix)
	}
}

func (o Options) validateListen(bad func(flag, format string, args ...any)) {
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		bad("tls-cert-file", "goes together with --tls-private-key-file")
	}
	if o.ClientCAFile != "" && o.TLSCertFile == "" {
		bad("client-ca-file", "needs --tls-cert-file")
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		bad("listen", "%q: want HOST:PORT", o.Listen)
		return
	}
	ip := net.ParseIP(host)
	loopback := host == "localhost" || ip != nil && ip.IsLoopback()
	if !loopback && o.TLSCertFile == "" && !o.InsecureListen {
		bad("listen", "%q is reachable from other machines without TLS; set --tls-cert-file, or say --insecure-listen", o.Listen)
	}
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

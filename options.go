package lockstep

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/httpapi/reviews"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Options configures a sidecar. Only Kubeconfig and Bundle are required: every other field may keep
// its zero value, which its comment explains. Almost every field corresponds to a flag of `sidecar
// run`; errors name both.
type Options struct {
	// NodeID is the ID of this node in the fleet, a DNS subdomain. Two sidecars must never use the
	// same one. Empty: the host name, in lower case.
	NodeID string
	// AdvertiseURL is the URL at which other machines reach the HTTP API. /status and the node's
	// record show it. Over plain HTTP, the listener also accepts requests for its host name. Empty:
	// derived from Listen; without Listen, no URL is shown.
	AdvertiseURL string

	// Etcd is External (etcd runs elsewhere) or Embedded (the sidecars run its members). Nil: External{}.
	Etcd Etcd
	// EtcdPrefix is the prefix of all keys in etcd. All sidecars of one control plane must use the
	// same prefix, and no other program may write below it. A missing slash at its end is added.
	// Empty: /lockstep/.
	EtcdPrefix string

	// DataDir is the directory of this node's etcd member, with its certificates, for Embedded.
	// With Services, the sidecar keeps the node's roles there. It creates a missing directory. Empty:
	// /var/lib/lockstep.
	DataDir string
	// NodeAddress is the IP address at which other nodes reach this one, for Embedded and
	// Services. Empty: the address that DataDir was created with, and at first the address of the
	// default route. If the machine does not have the address yet, the sidecar waits for it. It
	// rejects a missing NodeAddress only if no sidecar ever ran with it there: that is a mistake.
	NodeAddress string

	// Services is a directory with the services that this node runs for its roles, one file for each
	// (docs/roles.md#services). A service restarts when its file changes. Empty: another program
	// starts and stops the kube-apiserver.
	Services string

	// Kubeconfig is a kubeconfig file for this node's kube-apiserver, never for a load balancer. It is
	// read again when it or a file that it names changes. Requests to it ignore a proxy from the
	// environment. Required.
	Kubeconfig string
	// Bundle is a directory with bundle.yaml and the manifests of this release. It is watched: changed
	// manifests are applied without a restart. BuiltinBundle names the bundle that is part of the
	// program; a directory with that name is ./builtin. Required.
	Bundle string

	// Listen is the address (host:port) at which Run serves the HTTP API. Port 0 takes a free one; see
	// Sidecar.URL. Empty: Run opens no listener, and the API is served only where the program mounts
	// Sidecar.Handler. Defaults returns 127.0.0.1:8086.
	Listen string
	// InsecureListen allows a Listen address that other machines reach, without
	// TLS. False: that is an error.
	InsecureListen bool
	// AnonymousStatus allows clients on other machines to read all endpoints without a
	// client certificate. False: without ClientCAFile, they may read only the health
	// endpoints.
	AnonymousStatus bool
	// TLSCertFile is a PEM file with the serving certificate. It needs
	// TLSKeyFile and Listen. It is read again when it changes. Empty: plain HTTP.
	TLSCertFile string
	// TLSKeyFile is a PEM file with the key of TLSCertFile.
	TLSKeyFile string
	// ClientCAFile is a PEM file with the authorities of client certificates. If set, all endpoints
	// except the health checks require a client certificate, with a chain of at most four. It needs
	// TLSCertFile. Empty: no client certificate is required.
	ClientCAFile string

	// AuthenticationKubeconfig is a kubeconfig file for a kube-apiserver that reviews the tokens
	// of clients (TokenReview). It needs AuthorizationKubeconfig, and TLSCertFile where other machines
	// reach Listen. Empty: no token is accepted.
	AuthenticationKubeconfig string
	// AuthorizationKubeconfig is a kubeconfig file for a kube-apiserver that decides what a client may
	// read (SubjectAccessReview): the owner of a token, or of a client certificate of ClientCAFile, by
	// its CN and O. All endpoints except the health checks need this decision, also on this machine.
	// Empty: AnonymousStatus and ClientCAFile decide.
	AuthorizationKubeconfig string
	// AuthorizationAlwaysAllowPaths need no review, besides the health checks. A path may end
	// with an asterisk. Nil: none.
	AuthorizationAlwaysAllowPaths []string
	// TokenCacheTTL is how long the answer about a token is cached. Zero: 10 s.
	TokenCacheTTL time.Duration
	// AuthorizedCacheTTL is how long a permission to read is cached. Zero: 10 s.
	AuthorizedCacheTTL time.Duration
	// UnauthorizedCacheTTL is how long a denial is cached. Zero: 10 s.
	UnauthorizedCacheTTL time.Duration

	// Profiling serves profiles of the program at /debug/pprof, to the clients that may read
	// /status. False: the path is not found.
	Profiling bool
	// NoFleetLock: no agent that reboots the machine gets a turn from this sidecar (FleetLock). False: each program on the
	// machine can ask for one, without a credential.
	NoFleetLock bool

	// LeaseTTL is the lifetime of this sidecar's leases in etcd, in whole seconds, at least 3 s. After
	// a leader dies, no other node leads for about this time. Zero: 10 s.
	LeaseTTL time.Duration
	// ShutdownDelay is the time between a failing /readyz and the end of Run,
	// for load balancers to notice. Zero, the default: Run ends as soon as the
	// node no longer leads.
	ShutdownDelay time.Duration
	// ResyncInterval is the time between two full passes over all objects, at
	// least 1 s. Zero: 10 min.
	ResyncInterval time.Duration
	// LeaderYieldAfter is how long this node may lead without reaching its
	// kube-apiserver before another node may lead. Zero: 30 s.
	LeaderYieldAfter time.Duration
	// EtcdElectionTimeout is the election timeout of the etcd behind the kube-apiservers, at most 50
	// s. The higher it is, the longer a new leader waits for requests of its predecessor. All sidecars
	// of a control plane must use the same value. Zero: 1 s, etcd's default.
	EtcdElectionTimeout time.Duration
	// ExpireDeadNodes is how long this node may be unreachable before leaders no longer wait for it;
	// more than four times LeaseTTL. This node closes its gate when it has not reached etcd for half
	// of that time. Zero, the default: leaders wait until the node's record is removed.
	ExpireDeadNodes time.Duration
	// Ephemeral means that the ID of this node never returns, like the name of a pod. Run deletes the
	// node's record at its end, after waiting for up to a minute until the kube-apiserver has stopped;
	// otherwise leaders delete the record after ExpireDeadNodes, which Ephemeral needs. False: the
	// record stays until a user removes it.
	Ephemeral bool
	// OverrideFile is the file with which people let this node serve in spite of its gate
	// (docs/operations.md#break-glass). Zero: /etc/lockstep/override.
	OverrideFile string
	// ApplyConcurrency is the number of requests that the leader sends to its
	// kube-apiserver at once. Zero: 16.
	ApplyConcurrency int

	// AllowMassPrune allows a bundle to drop more than half of the objects of a
	// set larger than ten. False: the leader keeps them, and /status reports it.
	AllowMassPrune bool
	// APIServerReadyz makes /readyz of this node's kube-apiserver a check of
	// the sidecar's /readyz.
	APIServerReadyz bool

	// KubernetesService makes the sidecars write the addresses of the nodes with an open gate into the
	// Service kubernetes. All kube-apiservers need --endpoint-reconciler-type=none then. False: the
	// kube-apiservers write them.
	KubernetesService bool
	// APIServerAddress are the IP addresses at which clients of the Service kubernetes reach this
	// node's kube-apiserver, on the port of the kubeconfig's server: one, or one of each family, the
	// Service's family first. It needs KubernetesService. Empty: the server of the kubeconfig, if that
	// is an address of this machine and not loopback.
	APIServerAddress []string

	// Flags are shown at /flagz, in this order. They must contain no secret. Nil: none. There is no
	// flag for this field.
	Flags []httpapi.Flag
	// Registerer gets the sidecar's metrics, which /metrics shows too, from New until Run or Close
	// returns. A program that runs several sidecars wraps it with a label for each
	// (prometheus.WrapRegistererWith). Nil: only /metrics shows them. There is no flag for this field.
	Registerer prometheus.Registerer
}

// BuiltinBundle is the value of Options.Bundle for the bundle that is part of the
// program: a few objects with which people try Lockstep out.
const BuiltinBundle = bundle.BuiltinName

// Defaults returns the options of `sidecar run` without flags. They differ from the defaults that
// New uses for the zero Options only in Listen.
func Defaults() Options {
	return Options{Listen: nodeaddress.DefaultListen}.withDefaults()
}

// withDefaults returns o with the defaults in place of zero fields.
func (o Options) withDefaults() Options {
	switch e := o.Etcd.(type) {
	case nil:
		o.Etcd = External{}.WithDefaults()
	case External:
		o.Etcd = e.WithDefaults()
	case Embedded:
		o.Etcd = e.WithDefaults()
	}
	o.DataDir = cmp.Or(o.DataDir, "/var/lib/lockstep")
	o.EtcdPrefix = cmp.Or(o.EtcdPrefix, "/lockstep/")
	o.LeaseTTL = cmp.Or(o.LeaseTTL, 10*time.Second)
	o.ResyncInterval = cmp.Or(o.ResyncInterval, 10*time.Minute)
	o.LeaderYieldAfter = cmp.Or(o.LeaderYieldAfter, 30*time.Second)
	o.EtcdElectionTimeout = cmp.Or(o.EtcdElectionTimeout, protocol.DefaultElectionTimeout)
	o.TokenCacheTTL = cmp.Or(o.TokenCacheTTL, reviews.DefaultTTL)
	o.AuthorizedCacheTTL = cmp.Or(o.AuthorizedCacheTTL, reviews.DefaultTTL)
	o.UnauthorizedCacheTTL = cmp.Or(o.UnauthorizedCacheTTL, reviews.DefaultTTL)
	o.OverrideFile = cmp.Or(o.OverrideFile, DefaultOverrideFile)
	o.ApplyConcurrency = cmp.Or(o.ApplyConcurrency, 16)
	return o
}

// Validate returns all problems of the options, joined, each as an *OptionError; nil: none. Zero
// fields count as their defaults. It reads no file except in DataDir. New calls it.
func (o Options) Validate() error {
	o = o.withDefaults()
	var p problems
	o.checkNode(&p)
	o.checkPrefix(&p)
	o.checkEtcd(&p)
	if o.Kubeconfig == "" {
		p.add("Kubeconfig", "kubeconfig", "required: a kubeconfig file for this node's kube-apiserver")
	}
	if o.Bundle == "" {
		p.add("Bundle", "bundle", "required: the directory with bundle.yaml and the manifests of this release; to try Lockstep out, type --bundle=%s for the built-in bundle", BuiltinBundle)
	}
	o.checkService(&p)
	o.checkListen(&p)
	o.checkReviews(&p)
	o.checkTimes(&p)
	if o.ApplyConcurrency < 1 {
		p.add("ApplyConcurrency", "apply-concurrency", "%d: must be at least 1", o.ApplyConcurrency)
	}
	return errors.Join(p...)
}

// minLeaseTTL leaves time of a lease after the margin of one second and etcd's own minimum of two
// seconds (docs/upstream.md#etcd-leases).
const minLeaseTTL = 3 * time.Second

// minExpireLeases is how many lease lifetimes ExpireDeadNodes must exceed: then
// an etcd that is down for less than two of them closes no gate.
const minExpireLeases = 4

// maxElectionTimeout is the highest election timeout that etcd accepts.
const maxElectionTimeout = 50 * time.Second

func (o Options) checkTimes(p *problems) {
	if o.LeaseTTL < minLeaseTTL || o.LeaseTTL%time.Second != 0 {
		p.add("LeaseTTL", "lease-ttl", "%s: must be whole seconds, at least %s", o.LeaseTTL, minLeaseTTL)
	}
	if o.ResyncInterval < time.Second {
		p.add("ResyncInterval", "resync-interval", "%s: must be at least 1s", o.ResyncInterval)
	}
	if o.LeaderYieldAfter < 0 {
		p.add("LeaderYieldAfter", "leader-yield-after", "%s: must be more than 0", o.LeaderYieldAfter)
	}
	if o.EtcdElectionTimeout < 0 || o.EtcdElectionTimeout > maxElectionTimeout {
		p.add("EtcdElectionTimeout", "etcd-election-timeout", "%s: must be more than 0 and at most %s: what `etcd --election-timeout` has, in milliseconds, on the etcd of the kube-apiservers", o.EtcdElectionTimeout, maxElectionTimeout)
	}
	if least := minExpireLeases * o.LeaseTTL; o.ExpireDeadNodes < 0 || o.ExpireDeadNodes > 0 && o.ExpireDeadNodes <= least {
		p.add("ExpireDeadNodes", "expire-dead-nodes", "%s: must be 0 (never) or more than %s: the node closes its gate after half of this time, which must be more than two lease lifetimes (--lease-ttl)", o.ExpireDeadNodes, least)
	}
	if o.Ephemeral && o.ExpireDeadNodes == 0 {
		p.add("Ephemeral", "ephemeral", "needs --expire-dead-nodes, for nodes that are killed: set it to more than %s (four times --lease-ttl), like --expire-dead-nodes=2m", minExpireLeases*o.LeaseTTL)
	}
	if o.Ephemeral && o.runsEtcd() {
		p.add("Ephemeral", "ephemeral", "cannot be used with --etcd=embedded: the other members of etcd count on this node to return")
	}
	if o.ShutdownDelay < 0 {
		p.add("ShutdownDelay", "shutdown-delay", "%s: must be 0 or more", o.ShutdownDelay)
	}
}

// config checks the options and returns them in the form for package app.
func (o Options) config() (app.Config, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return app.Config{}, err
	}
	node, err := o.nodeID()
	if err != nil {
		return app.Config{}, err
	}
	cfg := app.Config{
		NodeID: node, AdvertiseURL: o.AdvertiseURL,
		Services: o.Services, DataDir: o.DataDir, NodeAddress: o.NodeAddress,
		Kubeconfig: o.Kubeconfig, Bundle: o.Bundle,
		Listen: o.Listen, AnonymousStatus: o.AnonymousStatus, OpenAPI: openAPI, Flags: o.Flags, Registerer: o.Registerer,
		TLS: httpapi.TLS{CertFile: o.TLSCertFile, KeyFile: o.TLSKeyFile, ClientCAFile: o.ClientCAFile},
		Reviews: app.Reviews{
			Authentication: o.AuthenticationKubeconfig, Authorization: o.AuthorizationKubeconfig,
			AlwaysAllowPaths: o.AuthorizationAlwaysAllowPaths,
			TokenTTL:         o.TokenCacheTTL, AllowedTTL: o.AuthorizedCacheTTL, DeniedTTL: o.UnauthorizedCacheTTL,
		},
		Profiling: o.Profiling, NoFleetLock: o.NoFleetLock,
		LeaseTTL: o.LeaseTTL, ShutdownDelay: o.ShutdownDelay, ResyncInterval: o.ResyncInterval,
		LeaderYieldAfter: o.LeaderYieldAfter, EtcdElectionTimeout: o.EtcdElectionTimeout,
		ExpireDeadNodes: o.ExpireDeadNodes, Ephemeral: o.Ephemeral,
		ApplyConcurrency: o.ApplyConcurrency, AllowMassPrune: o.AllowMassPrune, APIServerReadyz: o.APIServerReadyz,
		KubernetesService: o.KubernetesService, APIServerAddress: o.APIServerAddress,
		OverrideFile: o.OverrideFile,
	}
	switch e := o.Etcd.(type) {
	case External:
		cfg.Etcd = e.Config(o.EtcdPrefix)
	case Embedded:
		if cfg.Embedded, err = o.member(e, node); err != nil {
			return app.Config{}, err
		}
		cfg.Etcd = cfg.Embedded.EtcdConfig(o.EtcdPrefix)
		cfg.Snapshots, err = o.snapshots(e)
	}
	return cfg, err
}

package runflags

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/httpapi"
)

// Flags are what the flags of `sidecar run` set. The kind of etcd selects one of the two others.
type Flags struct {
	lockstep.Options
	EtcdKind console.Choice
	External lockstep.External
	Embedded lockstep.Embedded
	Log      Log
}

// Default returns the defaults of the flags.
func Default() Flags {
	return Flags{
		Options: lockstep.Defaults(), EtcdKind: console.NewChoice(externalEtcd, EmbeddedEtcd),
		External: lockstep.External{}.WithDefaults(), Embedded: lockstep.Embedded{}.WithDefaults(),
		Log: Log{
			Level:  console.Choice{Value: "info", Of: []string{"debug", "info", "warn", "error"}},
			Format: console.NewChoice("text", "json"),
		},
	}
}

// The values of --etcd.
const (
	externalEtcd = "external"
	// EmbeddedEtcd is for an etcd that the sidecars run themselves.
	EmbeddedEtcd = "embedded"
)

// ValidateEtcd returns the problems of the flags that lead a command to etcd.
func (r Flags) ValidateEtcd(flags *pflag.FlagSet) error {
	return checkOptions(flags, lockstep.ValidateExternal(r.External, r.EtcdPrefix))
}

// Combined returns the options that the flags mean.
func (r Flags) Combined() lockstep.Options {
	if r.Etcd = r.External; r.EtcdKind.Value == EmbeddedEtcd {
		r.Etcd = r.Embedded
	}
	return r.Options
}

// Check returns all problems of the flags, once they are parsed: of the options, and of flags that are for
// the other kind of etcd.
func (r Flags) Check(flags *pflag.FlagSet) error {
	other, remedy := embeddedFlags(&lockstep.Embedded{}), "has no effect with an etcd that runs elsewhere: set --etcd=embedded too, or leave it out"
	if r.EtcdKind.Value == EmbeddedEtcd {
		other = externalFlags(&lockstep.External{})
		remedy = "the sidecars run etcd themselves with --etcd=embedded, with its own certificates: leave it out, or set --etcd=external"
	}
	problems := Split(r.Combined().Validate())
	other.VisitAll(func(f *pflag.Flag) {
		if f = flags.Lookup(f.Name); f.Value.String() != f.DefValue {
			problems = append(problems, &lockstep.OptionError{Field: "Etcd", Flag: f.Name, Problem: remedy})
		}
	})
	return checkOptions(flags, errors.Join(problems...))
}

// Sections binds every flag of `sidecar run` to opts, whose values are the defaults.
func Sections(opts *Flags) []console.Section {
	return []console.Section{
		nodeFlags(&opts.Options), EtcdSection(&opts.External, &opts.EtcdPrefix), clusterFlags(opts), kubernetesFlags(&opts.Options),
		reconciliationFlags(&opts.Options), electionFlags(&opts.Options), servingFlags(&opts.Options), reviewFlags(&opts.Options),
		loggingFlags(&opts.Log),
	}
}

func nodeFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Node")
	s.Flags.StringVar(&o.NodeID, "node-id", o.NodeID, "`ID` of this node, a DNS subdomain. Two sidecars must never have the same ID. If empty, the host name.")
	s.Flags.StringVar(&o.AdvertiseURL, "advertise-url", o.AdvertiseURL, "`URL` at which other machines reach this sidecar, for /status. Over plain HTTP, requests may have its host name. If empty, derived from --listen.")
	s.Flags.StringVar(&o.Services, "services", o.Services, "The `directory` with a file for each service that this node runs for its roles (sidecar service validate checks it). If empty, something else starts and stops the kube-apiserver.")
	return s
}

// EtcdSection are the flags that locate an etcd which runs elsewhere.
func EtcdSection(e *lockstep.External, prefix *string) console.Section {
	s := console.NewSection("Etcd")
	s.Flags.AddFlagSet(externalFlags(e))
	s.Flags.StringVar(prefix, "etcd-prefix", *prefix, "The `prefix` of all keys in etcd, the same for all sidecars of a control plane. No other program may write below it.")
	return s
}

func externalFlags(e *lockstep.External) *pflag.FlagSet {
	flags := pflag.NewFlagSet("external", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringSliceVar(&e.Servers, "etcd-servers", e.Servers, "List of etcd servers (scheme://host:port), comma separated. The first that works is used.")
	flags.StringVar(&e.CAFile, "etcd-cafile", e.CAFile, "PEM `file` with the certificate authorities of the etcd servers. If empty, the system's.")
	flags.StringVar(&e.CertFile, "etcd-certfile", e.CertFile, "PEM `file` with the client certificate for etcd. Requires --etcd-keyfile.")
	flags.StringVar(&e.KeyFile, "etcd-keyfile", e.KeyFile, "PEM `file` with the key of --etcd-certfile.")
	return flags
}

func clusterFlags(o *Flags) console.Section {
	s := console.NewSection("Embedded etcd")
	s.Flags.Var(&o.EtcdKind, "etcd", "The `kind` of etcd. external: at --etcd-servers. embedded: the sidecars run its members themselves.")
	s.Flags.StringVar(&o.DataDir, "data-dir", o.DataDir, "The `directory` of this node's etcd member, its certificates and, with --services, the node's last roles. It is made if it is missing.")
	s.Flags.StringVar(&o.NodeAddress, "node-address", o.NodeAddress, "`IP` address at which other nodes reach this one, for --etcd=embedded and --services. If empty, the one that --data-dir was made with; at first, the default route's.")
	s.Flags.AddFlagSet(embeddedFlags(&o.Embedded))
	return s
}

func embeddedFlags(e *lockstep.Embedded) *pflag.FlagSet {
	flags := pflag.NewFlagSet("embedded", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.IntVar(&e.PeerPort, "peer-port", e.PeerPort, "The `port` at --node-address for other etcd members.")
	flags.IntVar(&e.ClientPort, "client-port", e.ClientPort, "The `port` at --node-address on which etcd serves the sidecars.")
	flags.IntVar(&e.JoinPort, "join-port", e.JoinPort, "The `port` at --node-address for nodes that join.")
	flags.Int64Var(&e.QuotaBytes, "etcd-quota-bytes", e.QuotaBytes, "The size of the etcd database, in `bytes`, at which etcd refuses writes, the same on all nodes. etcd suggests at most 8 GiB.")
	flags.DurationVar(&e.SnapshotEvery, "snapshot-every", e.SnapshotEvery, "Time between two snapshots of etcd that this node saves by itself. 0: none.")
	flags.IntVar(&e.SnapshotKeep, "snapshot-keep", e.SnapshotKeep, "The `number` of these snapshots that are kept.")
	flags.StringVar(&e.SnapshotDir, "snapshot-dir", e.SnapshotDir, "The `directory` of these snapshots. If empty, snapshots in --data-dir.")
	flags.StringVar(&e.Join, "join", e.Join, "`URL` of the join port of any member (https://host:port), to join its cluster. If empty, a new cluster is created. A member ignores it.")
	flags.StringVar(&e.Token, "token", e.Token, "The `token` that allows to join; sidecar cluster token create prints it. On the command line, ps shows it to every user of this machine: set LOCKSTEP_TOKEN, or --token-file. A member ignores it.")
	flags.StringVar(&e.TokenFile, "token-file", e.TokenFile, "A `file` with the token, in place of --token.")
	return flags
}

func kubernetesFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Kubernetes")
	s.Flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig `file` for this node's kube-apiserver, never for a load balancer. Required.")
	s.Flags.BoolVar(&o.APIServerReadyz, "apiserver-readyz", o.APIServerReadyz, "Add /readyz of this node's kube-apiserver to the sidecar's /readyz, so that a load balancer needs only one URL.")
	s.Flags.BoolVar(&o.KubernetesService, "kubernetes-service", o.KubernetesService, "Write the addresses of the nodes whose gate is open into the Service kubernetes. Every sidecar needs it, and every kube-apiserver --endpoint-reconciler-type=none.")
	s.Flags.StringSliceVar(&o.APIServerAddress, "apiserver-address", o.APIServerAddress, "`IP` address at which pods reach this node's kube-apiserver, for --kubernetes-service; for dual stack, one of each family, the Service's first. If empty, the server in --kubeconfig.")
	return s
}

func reconciliationFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Reconciliation")
	s.Flags.StringVar(&o.Bundle, "bundle", o.Bundle, "The `directory` of this release's bundle, or builtin to try Lockstep out. Required.")
	s.Flags.DurationVar(&o.ResyncInterval, "resync-interval", o.ResyncInterval, "Time between two full passes over all objects.")
	s.Flags.IntVar(&o.ApplyConcurrency, "apply-concurrency", o.ApplyConcurrency, "Maximum `number` of concurrent requests to the kube-apiserver.")
	s.Flags.BoolVar(&o.AllowMassPrune, "allow-mass-prune", o.AllowMassPrune, "Allow the leader to delete more than half of a set of more than ten objects when a bundle drops them.")
	return s
}

func electionFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Election")
	s.Flags.DurationVar(&o.LeaseTTL, "lease-ttl", o.LeaseTTL, "Lifetime of this sidecar's lease in etcd, in whole seconds, at least 3s. After a leader dies, no node leads for about this long.")
	s.Flags.DurationVar(&o.LeaderYieldAfter, "leader-yield-after", o.LeaderYieldAfter, "How long a leader may fail to reach its kube-apiserver before another node may lead.")
	s.Flags.DurationVar(&o.EtcdElectionTimeout, "etcd-election-timeout", o.EtcdElectionTimeout, "The election timeout of the etcd behind the kube-apiservers, the same for all sidecars. The higher, the longer a new leader waits for requests of the former one.")
	s.Flags.DurationVar(&o.ExpireDeadNodes, "expire-dead-nodes", o.ExpireDeadNodes, "How long this node may be unreachable before leaders no longer wait for it, more than four times --lease-ttl. The node closes its gate when it has not reached etcd for half of this time. 0: leaders wait until the node is removed.")
	s.Flags.BoolVar(&o.Ephemeral, "ephemeral", o.Ephemeral, "This node's ID does not return, as a pod's name. On a graceful stop, the sidecar deletes the node's record when its kube-apiserver has stopped, within a minute after --shutdown-delay; otherwise the leader does after --expire-dead-nodes, which this needs.")
	return s
}

func servingFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Serving")
	s.Flags.StringVar(&o.Listen, "listen", o.Listen, "The `address` (host:port) of the HTTP API: health, status, metrics. Port 0: any free port.")
	s.Flags.BoolVar(&o.InsecureListen, "insecure-listen", o.InsecureListen, "Allow other machines to reach --listen without TLS.")
	s.Flags.BoolVar(&o.AnonymousStatus, "anonymous-status", o.AnonymousStatus, "Allow other machines to read all endpoints without a client certificate. Otherwise, without --client-ca-file or --authorization-kubeconfig, they can read only health checks.")
	s.Flags.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "PEM `file` with the serving certificate. If empty, plain HTTP.")
	s.Flags.StringVar(&o.TLSKeyFile, "tls-private-key-file", o.TLSKeyFile, "PEM `file` with the key of --tls-cert-file.")
	s.Flags.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "PEM `file` with the authorities of client certificates. If set, all endpoints except the health checks require one, with a chain of at most 4 certificates. With --authorization-kubeconfig, its CN and O are the client's name, and a token does as well.")
	s.Flags.BoolVar(&o.Profiling, "profiling", o.Profiling, "Serve profiles of the program at /debug/pprof, to clients that may read /status.")
	s.Flags.BoolVar(&o.NoFleetLock, "no-fleet-lock", o.NoFleetLock, "Give no turn to an agent that reboots this machine (FleetLock), for which each program on the machine can ask.")
	s.Flags.StringVar(&o.OverrideFile, "override-file", o.OverrideFile, "The `file` that lets this node serve in spite of its gate: sidecar override begin writes it.")
	s.Flags.DurationVar(&o.ShutdownDelay, "shutdown-delay", o.ShutdownDelay, "Time between a failing /readyz and the exit, so that load balancers notice.")
	return s
}

// reviewFlags have the names that they have in kube-scheduler.
func reviewFlags(o *lockstep.Options) console.Section {
	s := console.NewSection("Access")
	flags := s.Flags
	flags.StringVar(&o.AuthenticationKubeconfig, "authentication-kubeconfig", o.AuthenticationKubeconfig, "Kubeconfig `file` for a kube-apiserver that reviews the tokens of clients (TokenReview). If empty, no token is accepted.")
	flags.StringVar(&o.AuthorizationKubeconfig, "authorization-kubeconfig", o.AuthorizationKubeconfig, "Kubeconfig `file` for a kube-apiserver that decides what a client may read (SubjectAccessReview), except the health checks, on this machine too. The client is the owner of a token, or the CN and O of a certificate of --client-ca-file.")
	flags.StringSliceVar(&o.AuthorizationAlwaysAllowPaths, "authorization-always-allow-paths", o.AuthorizationAlwaysAllowPaths, "`Paths` that all clients may read, in spite of --authorization-kubeconfig; one may end with an asterisk. /livez, /healthz and /readyz always are.")
	flags.DurationVar(&o.TokenCacheTTL, "authentication-token-webhook-cache-ttl", o.TokenCacheTTL, "How long the answer about a token is used again. While the kube-apiserver does not answer, an accepted token counts for up to an hour.")
	flags.DurationVar(&o.AuthorizedCacheTTL, "authorization-webhook-cache-authorized-ttl", o.AuthorizedCacheTTL, "How long the answer that a client may read a path is used again. While the kube-apiserver does not answer, it counts for up to an hour.")
	flags.DurationVar(&o.UnauthorizedCacheTTL, "authorization-webhook-cache-unauthorized-ttl", o.UnauthorizedCacheTTL, "How long the answer that a client may not read a path is used again.")
	return s
}

func loggingFlags(l *Log) console.Section {
	s := console.NewSection("Logging")
	s.Flags.Var(&l.Level, "log-level", "Minimum severity of log messages: "+l.Level.Options()+".")
	s.Flags.Var(&l.Format, "log-format", "Format of the log on stderr: "+l.Format.Options()+".")
	return s
}

// InForce returns all flags with their values, for /flagz, without passwords.
func InForce(sections []console.Section) []httpapi.Flag {
	var out []httpapi.Flag
	for _, s := range sections {
		s.Flags.VisitAll(func(f *pflag.Flag) {
			values := []string{f.Value.String()}
			if several, ok := f.Value.(pflag.SliceValue); ok {
				values = slices.Clone(several.GetSlice())
			}
			for i := range values {
				values[i] = redacted(values[i])
			}
			if f.Name == "token" && f.Value.String() != "" {
				values = []string{"xxxxx"}
			}
			out = append(out, httpapi.Flag{Name: f.Name, Value: strings.Join(values, ",")})
		})
	}
	return out
}

// redacted hides the password of a URL.
func redacted(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return s
	}
	return u.Redacted()
}

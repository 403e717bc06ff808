package main

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/httpapi"
)

// section is a group of flags as --help shows it.
type section struct {
	title string
	flags *pflag.FlagSet
}

// runSections binds every flag of `sidecar run` to opts and logging, whose
// present values are the defaults.
func runSections(opts *lockstep.Options, logging *logOptions) []section {
	return []section{
		nodeFlags(opts), etcdFlags(opts), kubernetesFlags(opts), reconciliationFlags(opts),
		electionFlags(opts), servingFlags(opts), loggingFlags(logging),
	}
}

func newSection(title string) section {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	return section{title: title, flags: flags}
}

func nodeFlags(o *lockstep.Options) section {
	s := newSection("Node")
	s.flags.StringVar(&o.NodeID, "node-id", o.NodeID, "`ID` of this node in the fleet, a DNS subdomain. If empty, the host name. Two sidecars must never share one.")
	s.flags.StringVar(&o.AdvertiseURL, "advertise-url", o.AdvertiseURL, "`URL` at which other machines reach this sidecar, shown in /status. If empty, derived from --listen.")
	return s
}

func etcdFlags(o *lockstep.Options) section {
	s := newSection("Etcd")
	s.flags.StringSliceVar(&o.EtcdServers, "etcd-servers", o.EtcdServers, "List of etcd servers to connect with (scheme://host:port), comma separated.")
	s.flags.StringVar(&o.EtcdCAFile, "etcd-cafile", o.EtcdCAFile, "PEM `file` with the certificate authority of the etcd servers. If empty, the system's.")
	s.flags.StringVar(&o.EtcdCertFile, "etcd-certfile", o.EtcdCertFile, "PEM `file` with the client certificate for etcd. Needs --etcd-keyfile.")
	s.flags.StringVar(&o.EtcdKeyFile, "etcd-keyfile", o.EtcdKeyFile, "PEM `file` with the key of --etcd-certfile.")
	s.flags.StringVar(&o.EtcdPrefix, "etcd-prefix", o.EtcdPrefix, "The `prefix` of all keys in etcd. All sidecars of one control plane have the same, and nobody else has it.")
	return s
}

func kubernetesFlags(o *lockstep.Options) section {
	s := newSection("Kubernetes")
	s.flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Kubeconfig `file` that leads to this node's own kube-apiserver, never to a load balancer. Required.")
	s.flags.BoolVar(&o.APIServerReadyz, "apiserver-readyz", o.APIServerReadyz, "Make /readyz of this node's kube-apiserver a check of the sidecar's /readyz, so that a load balancer needs one URL.")
	return s
}

func reconciliationFlags(o *lockstep.Options) section {
	s := newSection("Reconciliation")
	s.flags.StringVar(&o.Bundle, "bundle", o.Bundle, "The `directory` with bundle.yaml and the manifests of this release. If empty, the built-in bundle.")
	s.flags.DurationVar(&o.ResyncInterval, "resync-interval", o.ResyncInterval, "Time between two full passes over all objects.")
	s.flags.IntVar(&o.ApplyConcurrency, "apply-concurrency", o.ApplyConcurrency, "The `number` of requests to the kube-apiserver at once.")
	s.flags.BoolVar(&o.AllowMassPrune, "allow-mass-prune", o.AllowMassPrune, "Allow a bundle to drop more than half of the objects of a set larger than ten.")
	return s
}

func electionFlags(o *lockstep.Options) section {
	s := newSection("Election")
	s.flags.DurationVar(&o.LeaseTTL, "lease-ttl", o.LeaseTTL, "Lifetime of this sidecar's lease in etcd, in whole seconds, at least 3s: how long a dead leader holds the others up.")
	s.flags.DurationVar(&o.LeaderYieldAfter, "leader-yield-after", o.LeaderYieldAfter, "How long a leader bears that its own kube-apiserver is out of reach before another may lead.")
	s.flags.DurationVar(&o.ExpireDeadNodes, "expire-dead-nodes", o.ExpireDeadNodes, "How long this node may be gone before leaders no longer wait for it. It closes its gate when etcd is out of reach for half of that, so it should share its etcd with the kube-apiserver. More than four times --lease-ttl. 0: leaders wait until the node is removed.")
	return s
}

func servingFlags(o *lockstep.Options) section {
	s := newSection("Serving")
	s.flags.StringVar(&o.Listen, "listen", o.Listen, "The `address` (host:port) of the HTTP API: health, status, metrics. Port 0 takes a free one.")
	s.flags.BoolVar(&o.InsecureListen, "insecure-listen", o.InsecureListen, "Allow --listen to be reachable from other machines without TLS.")
	s.flags.StringVar(&o.TLSCertFile, "tls-cert-file", o.TLSCertFile, "PEM `file` with the serving certificate. It is read again when it changes. If empty, plain HTTP.")
	s.flags.StringVar(&o.TLSKeyFile, "tls-private-key-file", o.TLSKeyFile, "PEM `file` with the key of --tls-cert-file.")
	s.flags.StringVar(&o.ClientCAFile, "client-ca-file", o.ClientCAFile, "PEM `file` with the authorities of client certificates. If set, all but the health endpoints ask for one.")
	s.flags.DurationVar(&o.ShutdownDelay, "shutdown-delay", o.ShutdownDelay, "Time between a failing /readyz and the exit, for load balancers to notice. 0 exits as soon as leadership is given up.")
	return s
}

func loggingFlags(l *logOptions) section {
	s := newSection("Logging")
	s.flags.Var(&l.level, "log-level", "Least severe messages to log: "+l.level.options()+".")
	s.flags.Var(&l.format, "log-format", "Form of the log on stderr: "+l.format.options()+".")
	return s
}

// choice is a flag value out of a few words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string  { return c.value }
func (c *choice) Type() string    { return "string" }
func (c *choice) options() string { return strings.Join(c.of, ", ") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("want one of %s", c.options())
	}
	c.value = s
	return nil
}

func (c *choice) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return c.of, cobra.ShellCompDirectiveNoFileComp
}

// useSections gives cmd the flags, and a help that shows them by section.
func useSections(cmd *cobra.Command, sections []section) {
	for _, s := range sections {
		cmd.Flags().AddFlagSet(s.flags)
	}
	usage := func(cmd *cobra.Command) error {
		w := cmd.OutOrStdout()
		fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
		width := terminalWidth(w)
		for _, s := range sections {
			fmt.Fprintf(w, "\n%s flags:\n\n%s", s.title, s.flags.FlagUsagesWrapped(width))
		}
		fmt.Fprintf(w, "\nGlobal flags:\n\n  -h, --help   help for %s\n", cmd.Name())
		fmt.Fprint(w, "\nEach flag has an environment variable, like LOCKSTEP_ETCD_SERVERS for --etcd-servers.\nThe flag wins.\n")
		return nil
	}
	cmd.SetUsageFunc(usage)
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n", cmd.Long)
		_ = usage(cmd) // it cannot fail but by a closed stdout
	})
}

// inForce lists all flags with their values, for /flagz, without passwords.
func inForce(sections []section) []httpapi.Flag {
	var out []httpapi.Flag
	for _, s := range sections {
		s.flags.VisitAll(func(f *pflag.Flag) {
			values := []string{f.Value.String()}
			if several, ok := f.Value.(pflag.SliceValue); ok {
				values = slices.Clone(several.GetSlice())
			}
			for i := range values {
				values[i] = redacted(values[i])
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

// defaultWidth is for an output that is not a terminal.
const defaultWidth = 100

func terminalWidth(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return defaultWidth
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 40 {
		return defaultWidth
	}
	return width
}

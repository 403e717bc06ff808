package reach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/etcd"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/cluster"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
)

// Etcd is a client of etcd, with the flags that lead to it, which begin with a space.
type Etcd struct {
	*etcd.Client
	Flags  string
	Config etcd.Config
	// DataDir is the directory of a member on this machine; empty: etcd is reached by flags.
	DataDir string
}

// Dial returns a client of one member. The caller closes it.
func (c Etcd) Dial(clientURL string) (*etcd.Client, error) {
	cfg := c.Config
	cfg.Endpoints = []string{clientURL}
	return etcd.NewClient(cfg)
}

// WithEtcd adds the flags of etcd to cmd, and makes it run do with a client. The flags are checked first, cmd's
// own by its PreRunE: so the command names a wrong flag even if etcd does not answer.
func WithEtcd(cmd *cobra.Command, do func(context.Context, Etcd, []string) error) *cobra.Command {
	opts := runflags.Default()
	cmd.Flags().AddFlagSet(BindEtcd(&opts).Flags)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := opts.ValidateEtcd(cmd.Flags()); err != nil || check == nil {
			return err
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reach, err := EtcdConfig(cmd.Flags(), &opts)
		if err != nil {
			return err
		}
		if len(reach.Endpoints) > 1 {
			reach.AttemptTimeout = attemptTimeout
		}
		client, err := etcd.NewClient(reach)
		if err != nil {
			return err
		}
		if opts.DataDir == "" {
			if err := unusable(cmd.Context(), client); err != nil {
				return errors.Join(fmt.Errorf("%w%s", err, elsewhere(reach)), client.Close())
			}
		}
		to := Etcd{client, etcd.CommandFlags(reach, opts.DataDir), reach, opts.DataDir}
		ctx := cmd.Context()
		return errors.Join(to.complete(ctx, do(ctx, to, args)), client.Close())
	}
	return cmd
}

// complete adds to an error of a command what to do, with the flags of this machine.
func (c Etcd) complete(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fleet.ErrNoNode):
		err = c.withNodes(ctx, err)
	case c.DataDir != "" && etcd.IsNoSpace(err):
		err = fmt.Errorf("%w: the database of etcd is full; %s", err, cluster.FreeSpace)
	}
	return pasteableError{c.whenAway(ctx, err), c.Flags}
}

// whenAway adds to an error of a command that etcd did not answer where to look.
func (c Etcd) whenAway(ctx context.Context, err error) error {
	contact := c.Contact().Get()
	switch {
	case contact.Connected || contact.Problem == "": // it was not asked
		return err
	case errors.Is(err, etcd.ErrNoLeader) && c.DataDir != "":
		return AwayError{fmt.Errorf("%w; sidecar cluster members%s shows which members answer; %s", err, c.Flags, NoMajority)}
	case c.DataDir != "":
		return AwayError{fmt.Errorf("%w; is the sidecar of data directory %q running?", err, c.DataDir)}
	}
	if failed := cannotBeUsed(ctx, c.Client); failed != nil { // a slow server may have said nothing before the command
		err = failed
	}
	return AwayError{fmt.Errorf("%w%s", err, elsewhere(c.Config))}
}

// AwayError is the error of a command that etcd did not answer.
type AwayError struct{ Err error }

func (e AwayError) Error() string { return e.Err.Error() }
func (e AwayError) Unwrap() error { return e.Err }

// maxKnown bounds how many IDs an error lists.
const maxKnown = 20

// withNodes adds to the error about a node without a record which nodes have one.
func (c Etcd) withNodes(ctx context.Context, err error) error {
	f, failed := fleet.List(ctx, c.Client)
	var ids []string
	for _, r := range f.Records {
		ids = append(ids, string(r.ID))
	}
	switch {
	case failed != nil: // the error says enough
		return err
	case len(ids) == 0:
		return fmt.Errorf("%w; no node has one", err)
	}
	return fmt.Errorf("%w; these have one: %s", err, FirstKnown(ids))
}

// FirstKnown lists the first maxKnown of the IDs, and how many more there are.
func FirstKnown(ids []string) string {
	if more := len(ids) - maxKnown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:maxKnown], ", "), more)
	}
	return strings.Join(ids, ", ")
}

// kubeadmEnv is the file of variables that sidecar kubeadm writes by default.
var kubeadmEnv = filepath.Join(kubeadm.DefaultDir, kubeadm.EnvFile)

// elsewhere explains how to name another etcd, if none was named.
func elsewhere(reach etcd.Config) string {
	if !slices.Equal(reach.Endpoints, lockstep.External{}.WithDefaults().Servers) {
		return ""
	}
	if _, err := os.Stat(kubeadmEnv); err == nil {
		return "; this node is one of kubeadm: type this before, for the servers and the certificates: . " + kubeadmEnv
	}
	return "; if etcd is at another address, set --etcd-servers or LOCKSTEP_ETCD_SERVERS (on a node of kubeadm: . /etc/lockstep/env); if the sidecars run etcd themselves, set --data-dir"
}

// unusable returns why no server of etcd can be used, if that will not change while a command waits; nil: one
// may be usable. Otherwise the command would say at its end only that its time was over.
func unusable(ctx context.Context, client *etcd.Client) error {
	if servers := client.Endpoints(); nothingListens(ctx, servers) {
		return AwayError{fmt.Errorf("no answer from etcd at %s: connection refused", strings.Join(servers, ", "))}
	}
	limited, cancel := context.WithTimeout(ctx, refusedFor)
	defer cancel()
	return cannotBeUsed(limited, client)
}

// cannotBeUsed returns why no server of etcd can ever be used with the flags and certificates that the client has.
func cannotBeUsed(ctx context.Context, client *etcd.Client) error {
	if faults := client.Unusable(ctx); len(faults) > 0 {
		return fmt.Errorf("etcd cannot be used: %s", strings.Join(faults, "; "))
	}
	return nil
}

// refusedFor is how long all servers must refuse connections: one may be about to start.
const refusedFor = time.Second

// nothingListens reports whether all servers refuse connections. A client would ask them
// again and again until its request times out.
func nothingListens(ctx context.Context, servers []string) bool {
	const rounds = 6
	for round := range rounds {
		limited, cancel := context.WithTimeout(ctx, refusedFor)
		listens := slices.ContainsFunc(servers, func(server string) bool {
			u, err := url.Parse(server)
			return err != nil || !refuses(limited, u.Host)
		})
		cancel()
		if listens || round < rounds-1 && !backoff.Sleep(ctx, refusedFor/(rounds-1)) {
			return false
		}
	}
	return true
}

// refuses reports whether nothing listens at an address.
func refuses(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close() // nothing was sent
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// pasteableError is an error whose commands contain the flags of this machine.
type pasteableError struct {
	error
	flags string
}

func (e pasteableError) Error() string { return httpapi.Pasteable(e.error.Error(), e.flags) }
func (e pasteableError) Unwrap() error { return e.error }

// BindEtcd returns the flags that lead a command to etcd. No data directory is the default.
func BindEtcd(opts *runflags.Flags) console.Section {
	opts.DataDir = ""
	section := runflags.EtcdSection(&opts.External, &opts.EtcdPrefix)
	section.Flags.StringVar(&opts.DataDir, "data-dir", "", "The data `directory` of an etcd member on this machine, in place of --etcd-servers and certificates. If neither is set, "+lockstep.Defaults().DataDir+" is used if it contains a member.")
	section.Flags.VisitAll(func(f *pflag.Flag) { console.Annotate(f, console.SectionOf, EtcdTopic) })
	return section
}

// attemptTimeout is how long a server may take for a request of a command until the next one
// is asked: a command may make a single request, and the first server may be off.
const attemptTimeout = time.Second

// NoMajority is the remedy for a cluster without a majority.
const NoMajority = "start the sidecars of the others again; if they are off for good, " + cluster.Restore

// etcdPlaces are the flags that locate etcd.
func etcdPlaces() []string {
	return []string{"etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile"}
}

// hasMarker reports whether a sidecar made the directory. An unreadable one counts: the error is reported when it
// is used.
func hasMarker(dir string) bool {
	_, err := os.Stat(datadir.Layout(dir).Marker())
	return !errors.Is(err, fs.ErrNotExist)
}

// EtcdConfig returns the configuration of the etcd client: by its flags, or from the data directory of a member. If
// neither is set, it sets the data directory to the default one, if that has a member.
func EtcdConfig(flags *pflag.FlagSet, opts *runflags.Flags) (etcd.Config, error) {
	if dir := lockstep.Defaults().DataDir; opts.DataDir == "" && !slices.ContainsFunc(etcdPlaces(), flags.Changed) && hasMarker(dir) {
		opts.DataDir = dir
	}
	if opts.DataDir == "" {
		return opts.External.Config(opts.EtcdPrefix), nil
	}
	for _, name := range etcdPlaces() {
		if f := flags.Lookup(name); f.Value.String() != f.DefValue {
			return etcd.Config{}, console.Usagef("%w", console.WithVariable(f, fmt.Errorf("--%s: set either this or --data-dir, which has the servers and the certificates", name)))
		}
	}
	return cluster.Reach(opts.DataDir, opts.EtcdPrefix)
}

// EtcdTopic is the topic of the flags that locate etcd.
const EtcdTopic = "etcd"

// EtcdSection are the flags of commands that reach etcd.
func EtcdSection() console.Section {
	opts := runflags.Default()
	return BindEtcd(&opts)
}

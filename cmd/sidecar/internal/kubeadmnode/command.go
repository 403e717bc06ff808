package kubeadmnode

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/runflags"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// kubeadmFlags are the flags of kubeadm.
type kubeadmFlags struct {
	check, force  bool
	https         bool // switch it on where a call before chose another listener
	image, bundle string
	dir           string // of Lockstep
	kubernetesDir string
	nodeID        string
	host          string // the name of the node if --node-id is not set
	apiserverURL  string
	output        console.Choice
	args          []string // of sidecar run
}

// KubernetesDir is the directory of kubeadm on a node.
const KubernetesDir = "/etc/kubernetes"

// program is the outside world, with the methods of this command.
type program struct{ console.Program }

// Command is sidecar kubeadm.
func Command(caller console.Program) *cobra.Command {
	p := program{caller}
	f := kubeadmFlags{dir: kubeadm.DefaultDir, kubernetesDir: KubernetesDir, output: console.NewChoice("table", "json")}
	cmd := &cobra.Command{
		Use:   "kubeadm [flags] [-- RUN-FLAG...]",
		Short: "Write what this kubeadm node needs for a sidecar, or check a node that has it",
		Long: `Write what this node of kubeadm needs for a sidecar, and print what to type next:
patches for kubeadm --patches, the bundle, the rights that Lockstep and this bundle need,
and a kubeconfig with an identity of its own, if the CA of the cluster is on this node.
Each call renews that identity. The image, the bundle and flags of sidecar run, which follow
after --, keep the value of the call before if they are not set. The other flags do not: type
them again, as the printed commands do. With --kubernetes-service after --, kube-apiserver
gets --endpoint-reconciler-type=none.

A file that it did not write, or that was changed since, is left alone, and named. --force
overwrites it.

With --check, write nothing, and print everything that is wrong on this node, each with
what to type.

Exit codes: 0 success, 1 failure, or something is wrong; 2 wrong usage.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				return console.Usagef("unexpected argument %q; flags of sidecar run follow after --; see %s --help", args[0], cmd.CommandPath())
			}
			f.args = args
			if err := f.complete(); err != nil {
				return err
			}
			if f.check {
				return p.check(cmd.Context(), f)
			}
			return p.write(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.check, "check", false, "Write nothing, and print everything that is wrong on this node.")
	flags.BoolVar(&f.force, "force", false, "Also overwrite files that this command did not write, or that were changed since.")
	flags.BoolVar(&f.https, "https", false, "Serve HTTPS to other machines, with a certificate of the cluster's CA, so that Prometheus can scrape this node; the default of a first call without --listen after --.")
	flags.StringVar(&f.image, "image", "", "The `image` of the sidecar. Required at the first call.")
	flags.StringVar(&f.bundle, "bundle", "", "The `directory` of the bundle that this node runs next, or builtin. It is copied. Required at the first call.")
	flags.StringVar(&f.dir, "dir", f.dir, "The `directory` of Lockstep on this node. The container has it, read-only.")
	flags.StringVar(&f.kubernetesDir, "kubernetes-dir", f.kubernetesDir, "The `directory` of kubeadm on this node.")
	flags.StringVar(&f.nodeID, "node-id", "", "The `name` of this node in Kubernetes. If empty, the host name.")
	flags.StringVar(&f.apiserverURL, "apiserver-url", "", "`URL` of this node's kube-apiserver, never of a load balancer. If empty, what kubeadm has advertised; before that, the address of the default route, port 6443.")
	flags.VarP(&f.output, "output", "o", "Output format of --check: "+f.output.Options()+".")
	return cmd
}

// complete checks the flags, and sets the values that depend on the machine.
func (f *kubeadmFlags) complete() error {
	if err := f.completePaths(); err != nil {
		return err
	}
	u, err := url.Parse(f.apiserverURL)
	if f.apiserverURL != "" && (err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "") {
		return console.Usagef("--apiserver-url: %q: must be https://ADDRESS:PORT, of this node", f.apiserverURL)
	}
	if strings.ContainsAny(f.image, " \t\n\"'") {
		return console.Usagef("--image: %q: must be the name of an image", f.image)
	}
	for _, arg := range f.args {
		if !strings.HasPrefix(arg, "--") || len(arg) < 4 {
			return console.Usagef("%q after --: must be a flag of sidecar run, like --listen=127.0.0.1:8086", arg)
		}
	}
	if f.https && kubeadm.ChoosesListener(f.args) {
		return console.Usagef("--https: leave out what follows after -- about the listener, TLS and access")
	}
	if f.check && (f.https || f.image != "" || f.bundle != "" || len(f.args) > 0 || f.force) {
		return console.Usagef("--check writes nothing: leave out --image, --bundle, --force, --https and what follows after --")
	}
	host, err := os.Hostname()
	if f.nodeID == "" && err != nil {
		return console.Usagef("--node-id: required, since the host name is unknown: %w", err)
	}
	f.host = strings.ToLower(host)
	f.nodeID = cmp.Or(f.nodeID, f.host)
	return nil
}

func (f *kubeadmFlags) completePaths() error {
	for name, dir := range map[string]string{"dir": f.dir, "kubernetes-dir": f.kubernetesDir} {
		if !filepath.IsAbs(dir) || strings.ContainsAny(dir, " {}\n") {
			return console.Usagef("--%s: %q: must be an absolute path, without spaces and braces", name, dir)
		}
	}
	if f.bundle == "" || f.bundle == bundle.BuiltinName {
		return nil
	}
	dir, err := filepath.Abs(f.bundle) // printed commands are typed elsewhere
	if err != nil {
		return console.Usagef("--bundle: %w", err)
	}
	f.bundle = dir
	return nil
}

// again is the command that writes everything again for this node.
func (f kubeadmFlags) again() string {
	words := []string{"sidecar kubeadm"}
	for _, set := range []struct{ name, value, standard string }{
		{"dir", f.dir, kubeadm.DefaultDir}, {"kubernetes-dir", f.kubernetesDir, KubernetesDir},
		{"node-id", f.nodeID, f.host}, {"apiserver-url", f.apiserverURL, ""},
	} {
		if set.value != set.standard {
			words = append(words, "--"+set.name+"="+set.value)
		}
	}
	return strings.Join(words, " ")
}

// elsewhere returns the flags for another node, which uses a name and a kube-apiserver URL of its own.
func (f kubeadmFlags) elsewhere() kubeadmFlags {
	f.nodeID, f.apiserverURL = f.host, ""
	return f
}

func (f kubeadmFlags) manifest() string {
	return filepath.Join(f.kubernetesDir, "manifests", "kube-apiserver.yaml")
}

// admin is the kubeconfig of an administrator.
func (f kubeadmFlags) admin() string { return filepath.Join(f.kubernetesDir, "admin.conf") }

func (f kubeadmFlags) pki(name string) string { return filepath.Join(f.kubernetesDir, "pki", name) }

func (f kubeadmFlags) podPatch() string {
	return filepath.Join(f.dir, kubeadm.PatchesDir, kubeadm.PodPatch)
}

func (f kubeadmFlags) kubeconfig() string { return filepath.Join(f.dir, kubeadm.KubeconfigFile) }

// server returns the URL of this node's kube-apiserver. pod is its manifest, which may be
// empty.
func (f kubeadmFlags) server(ctx context.Context, pod kubeadm.Pod) (string, error) {
	switch {
	case f.apiserverURL != "":
		return f.apiserverURL, nil
	case pod.Endpoint() != "":
		return "https://" + pod.Endpoint(), nil
	}
	host, err := nodeaddress.Find("")
	if err != nil {
		return "", console.Usagef("--apiserver-url: required, since this machine has no default route: https://ADDRESS:6443 of this node")
	}
	return "https://" + net.JoinHostPort(host, "6443"), nil
}

// runOptions parses the arguments of a container as sidecar run does. variable returns the container's
// environment.
func runOptions(args []string, variable func(string) (string, bool), node string) (lockstep.Options, error) {
	set := runflags.Default()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	for _, s := range runflags.Sections(&set) {
		flags.AddFlagSet(s.Flags)
	}
	if len(args) == 0 || args[0] != "run" {
		return set.Combined(), fmt.Errorf("the first must be run")
	}
	own := make([]string, len(args)-1)
	for i, arg := range args[1:] {
		own[i] = strings.ReplaceAll(arg, "$(NODE_NAME)", node)
	}
	if err := flags.Parse(own); err != nil {
		if near := console.NearestFlag(flags, err); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		return set.Combined(), err
	}
	if flags.NArg() > 0 {
		return set.Combined(), fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := (console.Program{LookupEnv: variable}).ApplyEnv(flags); err != nil {
		return set.Combined(), err
	}
	return set.Combined(), set.Check(flags)
}

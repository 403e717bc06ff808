package kubeadmnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/terminal"
	"github.com/lockstep-dev/lockstep/internal/certificates"
	"github.com/lockstep-dev/lockstep/internal/kubeaccess"
	"github.com/lockstep-dev/lockstep/internal/kubeadm"
	"github.com/lockstep-dev/lockstep/internal/role/service"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/internal/trusted"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// Report is the output of kubeadm --check. Every field is always present.
type Report struct {
	Node     string            `json:"node"`
	Findings []kubeadm.Finding `json:"findings"`
}

// reported returns the problems on this node.
func (p program) reported(ctx context.Context, f kubeadmFlags) Report {
	report := Report{Node: f.nodeID, Findings: p.facts(ctx, f).Check()}
	if report.Findings == nil {
		report.Findings = []kubeadm.Finding{}
	}
	for i, found := range report.Findings {
		report.Findings[i].Message, report.Findings[i].Where = terminal.Clean(found.Message), terminal.Clean(found.Where)
	}
	return report
}

// Findings returns the problems on a node of kubeadm, with the default directory of Lockstep.
func Findings(ctx context.Context, caller console.Program, kubernetes string) (Report, error) {
	f := kubeadmFlags{check: true, dir: kubeadm.DefaultDir, kubernetesDir: kubernetes}
	if err := f.complete(); err != nil {
		return Report{}, err
	}
	if _, err := os.Stat(f.manifest()); err != nil {
		return Report{}, fmt.Errorf("this is no node of kubeadm: %w", err)
	}
	return program{caller}.reported(ctx, f), nil
}

func (p program) check(ctx context.Context, f kubeadmFlags) error {
	report := p.reported(ctx, f)
	if err := p.print(report, f.output.Value); err != nil {
		return err
	}
	if n := len(report.Findings); n > 0 {
		return console.ExitError{Code: console.ExitFailed, Err: fmt.Errorf("node %s: %s", f.nodeID, terminal.Count(n, "problem"))}
	}
	return nil
}

func (p program) print(r Report, form string) error {
	if form == "json" {
		return p.PrintJSON(r)
	}
	for _, found := range r.Findings {
		message := found.Message
		if found.Reason == kubeadm.RightsMissing { // before the first kubectl apply it is a long list
			head, list, _ := strings.Cut(message, "may not: ")
			message = head + "may not:\n    " + strings.ReplaceAll(list, "; ", "\n    ")
		}
		fmt.Fprintf(p.Stdout, "%s: %s: %s\n", found.Where, found.Reason, message)
		fmt.Fprintln(p.Stdout, "  type: "+strings.ReplaceAll(found.Remedy, "\n", "\n        "))
	}
	if len(r.Findings) == 0 {
		fmt.Fprintf(p.Stdout, "node %s: no problem found\n", r.Node)
	}
	return nil
}

// facts reads all inputs of the check.
func (p program) facts(ctx context.Context, f kubeadmFlags) kubeadm.Facts {
	out := kubeadm.Facts{
		Node: f.nodeID, Now: p.Now(), Dir: f.dir, Admin: f.admin(), Write: f.again(),
		Manifest: contentOf(f.manifest()), PodPatch: contentOf(f.podPatch()),
		FlagsPatch: contentOf(filepath.Join(f.dir, kubeadm.PatchesDir, kubeadm.FlagsPatch)),
		Local:      localAddresses(),
	}
	out.Kubeconfig.Path = f.kubeconfig()
	// If the manifest contains no sidecar, the patch shows the intended one.
	pod, err := kubeadm.ParsePod(out.Manifest.Bytes)
	c := pod.Sidecar()
	runs := err == nil && c != nil
	if !runs {
		pod, _ = kubeadm.ParsePod(out.PodPatch.Bytes) // its error is a finding
		c = pod.Sidecar()
	}
	var opts lockstep.Options
	if c != nil {
		opts = p.sidecarFacts(&out, f, container{pod, *c})
	}
	p.kubeconfigFacts(ctx, &out, bundleFacts(&out, f))
	distrust(&out, f.deciding()...)
	if out.BundleDir != "" && out.BundleDir != bundle.BuiltinName {
		distrust(&out, out.BundleDir)
	}
	if !errors.Is(out.Kubeconfig.Err, errNotOfNode) {
		distrust(&out, out.Kubeconfig.Path)
	}
	if runs && out.Sidecar.Err == nil {
		fileFacts(&out, f, container{pod, *c}, opts)
		servicesFact(&out, container{pod, *c}, opts.Services)
	}
	return out
}

// deciding are the files below the directory of Lockstep that decide what this node, or the cluster, runs.
func (f kubeadmFlags) deciding() []string {
	patches, cluster := filepath.Join(f.dir, kubeadm.PatchesDir), filepath.Join(f.dir, kubeadm.ClusterDir)
	return append(filesIn(cluster), filepath.Join(f.dir, kubeadm.EnvFile),
		filepath.Join(patches, kubeadm.PodPatch), filepath.Join(patches, kubeadm.FlagsPatch))
}

// filesIn returns a directory and the files in it.
func filesIn(dir string) []string {
	out := []string{dir}
	entries, _ := os.ReadDir(dir) // it does not have to exist
	for _, entry := range entries {
		out = append(out, filepath.Join(dir, entry.Name()))
	}
	return out
}

// bundleFacts returns the bundles for which the sidecar needs rights: the one that it runs, and the one that it
// runs after the next kubeadm upgrade. It leaves out an unreadable bundle.
func bundleFacts(out *kubeadm.Facts, f kubeadmFlags) []*bundle.Bundle {
	var bundles []*bundle.Bundle
	add := func(dir string) error {
		b, err := bundle.Open(dir)
		if err == nil && (len(bundles) == 0 || bundles[0].Digest != b.Digest) {
			bundles = append(bundles, b)
			distrust(out, b.Paths()...)
		}
		return err
	}
	if out.BundleDir != "" {
		out.BundleErr = add(out.BundleDir)
	}
	if next, err := kubeadm.ReadSettings(out.PodPatch.Bytes); err == nil { // else a finding says so
		_ = add(f.bundleDir(next))
	}
	return bundles
}

// container is a container with its pod, which maps the container's paths to files of the node.
type container struct {
	pod kubeadm.Pod
	kubeadm.ContainerSpec
}

// host returns the node's file that the container sees at a path.
func (c container) host(inside string) string { return c.pod.HostPath(c.ContainerSpec, inside) }

// sidecarFacts parses the arguments of the sidecar.
func (p program) sidecarFacts(out *kubeadm.Facts, f kubeadmFlags, c container) lockstep.Options {
	opts, err := runOptions(c.Args, c.Variable, f.nodeID)
	out.Sidecar = kubeadm.Sidecar{
		Err: oneLine(err), ShutdownDelay: opts.ShutdownDelay, Listen: opts.Listen, TLS: opts.TLSCertFile != "",
		KubernetesService: opts.KubernetesService,
	}
	if opts.Kubeconfig != "" {
		if out.Kubeconfig.Path = c.host(opts.Kubeconfig); out.Kubeconfig.Path == "" {
			out.Kubeconfig.Path, out.Kubeconfig.Err = opts.Kubeconfig, errNotOfNode
		}
	}
	switch opts.Bundle {
	case "": // out.Sidecar.Err says so
	case bundle.BuiltinName:
		out.BundleDir = bundle.BuiltinName
	default:
		if out.BundleDir = c.host(opts.Bundle); out.BundleDir == "" {
			out.BundleErr = fmt.Errorf("--bundle=%s is not in a volume of this node", opts.Bundle)
		}
	}
	return opts
}

// oneLine joins the lines of an error.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// kubeconfigFacts reads the kubeconfig, and asks the API for rights.
func (p program) kubeconfigFacts(ctx context.Context, out *kubeadm.Facts, bundles []*bundle.Bundle) {
	k := &out.Kubeconfig
	if k.Err != nil {
		return
	}
	access, err := kubeaccess.New(k.Path)
	if err != nil {
		k.Err = err
		return
	}
	ctx, cancel := context.WithTimeout(ctx, kubeaccess.RightsTimeout)
	defer cancel()
	k.Server = access.Server
	k.User, k.Groups = access.User()
	if k.Addresses, k.Err = access.Addresses(ctx); k.Err != nil {
		return
	}
	if len(access.ClientCert) > 0 {
		out.Certificates = append(out.Certificates, certificate(k.Path, "the client certificate of the kubeconfig", out.Write, access.ClientCert))
	}
	out.Certificates = append(out.Certificates, certificate(k.Path, "the CA of the kubeconfig",
		"# renew the CA of the cluster, then:\n"+out.Write, access.CA))
	out.Missing, out.RightsErr = access.Missing(ctx, kubeaccess.Needs{Bundles: bundles, Endpoints: out.Sidecar.KubernetesService})
	out.AskRefused = errors.Is(out.RightsErr, kubeaccess.ErrMayNotAsk)
}

func certificate(file, name, renew string, content []byte) kubeadm.Certificate {
	until, err := certificates.Expiry(content)
	return kubeadm.Certificate{Path: file, Name: name, Renew: renew, Until: until, Unread: err}
}

var errNotOfNode = errors.New("it is not in a volume of this node")

// fileFacts reads the files that the sidecar needs for etcd, and to serve: it does not start without them.
func fileFacts(out *kubeadm.Facts, f kubeadmFlags, c container, opts lockstep.Options) {
	const replace, renew = "# put a valid file there", "kubeadm certs renew apiserver-etcd-client"
	external, _ := opts.Etcd.(lockstep.External) // else etcd's files are the sidecar's own
	for _, file := range []struct{ inside, key, name, renew string }{
		{external.CAFile, "", "the CA of the etcd servers", replace},
		{external.CertFile, external.KeyFile, "the client certificate for etcd", renew},
		{opts.TLSCertFile, opts.TLSKeyFile, "the serving certificate of the sidecar", replace},
		{opts.ClientCAFile, "", "the CA of the client certificates that the sidecar accepts", replace},
	} {
		if file.inside == "" {
			continue
		}
		if !strings.HasPrefix(c.host(file.inside), f.pki("")) {
			file.renew = replace
		}
		if slices.Contains(kubeadm.ServedFiles(), file.inside) {
			file.renew = out.Write
		}
		cert := contentIn(c, file.inside)
		found := certificate(cert.Path, file.name, file.renew, cert.Bytes)
		if cert.Err != nil {
			found.Until, found.Unread = time.Time{}, cert.Err
		}
		out.Certificates = append(out.Certificates, found)
		if file.key == "" {
			continue
		}
		key := contentIn(c, file.key)
		if key.Err == nil && found.Unread == nil {
			_, key.Err = tls.X509KeyPair(cert.Bytes, key.Bytes)
		}
		out.Certificates = append(out.Certificates, kubeadm.Certificate{
			Path: key.Path, Name: "the key of " + file.name, Renew: file.renew, Unread: key.Err,
		})
	}
}

// servicesFact reads the directory of --services.
func servicesFact(out *kubeadm.Facts, c container, dir string) {
	if dir == "" {
		return
	}
	found := kubeadm.Certificate{Path: c.host(dir), Name: "the directory of services", Renew: "# put a valid directory there"}
	if found.Path == "" {
		found.Path, found.Unread = dir, errNotOfNode
	} else {
		_, err := service.Check(found.Path)
		found.Unread = oneLine(err)
		distrust(out, serviceFiles(found.Path)...)
	}
	out.Certificates = append(out.Certificates, found)
}

// serviceFiles returns the directory of services and the files that the sidecar reads there: it refuses one that others can
// change.
func serviceFiles(dir string) []string {
	return slices.DeleteFunc(filesIn(dir), func(path string) bool {
		name := filepath.Base(path)
		return path != dir && (strings.HasPrefix(name, ".") || !strict.IsFile(name))
	})
}

// distrust notes where other users than root can change files, each place once.
func distrust(out *kubeadm.Facts, paths ...string) {
	for _, found := range trusted.FindAll(paths) {
		if u := kubeadm.Untrusted(found); !slices.Contains(out.Untrusted, u) {
			out.Untrusted = append(out.Untrusted, u)
		}
	}
}

// contentIn reads a file that the container sees at a path.
func contentIn(c container, inside string) kubeadm.Content {
	host := c.host(inside)
	if host == "" {
		return kubeadm.Content{Path: inside, Err: errNotOfNode}
	}
	return contentOf(host)
}

func contentOf(file string) kubeadm.Content {
	content, err := os.ReadFile(file)
	if err != nil {
		err = strict.Reason(err)
	}
	return kubeadm.Content{Path: file, Bytes: content, Err: err}
}

// localAddresses are the addresses of this machine; none if they are unknown.
func localAddresses() []string {
	var out []string
	addrs, _ := net.InterfaceAddrs() // a finding that names no address reports it
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			out = append(out, n.IP.String())
		}
	}
	return out
}

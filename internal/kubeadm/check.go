package kubeadm

import (
	"cmp"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Finding is one thing that is wrong on a node.
type Finding struct {
	Reason  Reason `json:"reason"`
	Where   string `json:"where"`   // a file, or another thing, such as a URL
	Message string `json:"message"` // the problem, and its consequence
	Remedy  string `json:"remedy"`  // a command to type on each line; a line with # names an action before that
}

// Reason is one word for a Finding. It is never renamed.
type Reason string

// The reasons; docs/kubeadm.md#findings explains them.
const (
	ManifestUnreadable   Reason = "ManifestUnreadable"
	PatchUnreadable      Reason = "PatchUnreadable"
	PatchNotApplied      Reason = "PatchNotApplied"
	ContainerMissing     Reason = "ContainerMissing"
	ArgumentsInvalid     Reason = "ArgumentsInvalid"
	ProbeMissing         Reason = "ProbeMissing"
	GraceTooShort        Reason = "GraceTooShort"
	GraceUnknown         Reason = "GraceUnknown"
	DelayMissing         Reason = "DelayMissing"
	RetryAfterMissing    Reason = "RetryAfterMissing"
	PreStop              Reason = "PreStop"
	StoppedLast          Reason = "StoppedLast"
	EndpointsUnwritten   Reason = "EndpointsUnwritten"
	EndpointsContested   Reason = "EndpointsContested"
	KubeconfigUnreadable Reason = "KubeconfigUnreadable"
	KubeconfigElsewhere  Reason = "KubeconfigElsewhere"
	IdentityShared       Reason = "IdentityShared"
	CertificateExpires   Reason = "CertificateExpires"
	FileUnreadable       Reason = "FileUnreadable"
	FileUntrusted        Reason = "FileUntrusted"
	BundleInvalid        Reason = "BundleInvalid"
	APIUnreachable       Reason = "APIUnreachable"
	RightsMissing        Reason = "RightsMissing"
)

// Content is a file and its content, or why it cannot be read.
type Content struct {
	Path  string
	Bytes []byte
	Err   error
}

// Sidecar contains the settings in the arguments of the sidecar's container.
type Sidecar struct {
	Err               error // they are invalid
	ShutdownDelay     time.Duration
	Listen            string
	TLS               bool // it serves HTTPS
	KubernetesService bool
}

// Kubeconfig describes the kubeconfig of the sidecar.
type Kubeconfig struct {
	Path      string
	Err       error
	Server    string
	Addresses []string // of the server
	User      string   // of the client certificate; empty: there is none
	Groups    []string
}

// Certificate is one that the sidecar uses.
type Certificate struct {
	Path   string
	Name   string    // a description, for people
	Renew  string    // the command that renews it
	Until  time.Time // zero: it never ends, such as a key
	Unread error     // it cannot be read
}

// Facts describe a node. Check decides by them alone.
type Facts struct {
	Node         string
	Now          time.Time
	Dir          string // of Lockstep
	Admin        string // the kubeconfig of an administrator, which kubeadm made
	Write        string // the command that writes it; without settings of a call before, writeFirst
	Manifest     Content
	PodPatch     Content
	FlagsPatch   Content
	Sidecar      Sidecar
	Local        []string // addresses of this machine
	Kubeconfig   Kubeconfig
	Certificates []Certificate
	Untrusted    []Untrusted // files and directories that others than root can change, each once
	BundleDir    string      // a path on the node, or the name of the built-in bundle
	BundleErr    error
	RightsErr    error
	AskRefused   bool     // RightsErr is that this user may not ask what it may do, as every user may
	Missing      []string // rights
}

// Untrusted is a file or directory that others than root can change, although it decides which
// programs root runs, or which objects the sidecar writes.
type Untrusted struct{ Path, What, Remedy string }

// checker collects findings.
type checker struct {
	Facts
	pod   Pod
	patch Pod
	found []Finding
}

// Check returns everything that is wrong on a node, in the order in which to repair it.
func (f Facts) Check() []Finding {
	c := &checker{Facts: f}
	c.patches()
	if c.manifest() {
		c.container()
		c.stop()
		c.endpoints()
	}
	c.kubeconfig()
	c.certificates()
	for _, u := range c.Untrusted {
		c.add(FileUntrusted, u.Path, u.Remedy, "it %s, and with it what this node runs; if no other user has, take that right away", u.What)
	}
	c.bundle()
	c.rights()
	return c.found
}

func (c *checker) add(reason Reason, where, remedy, format string, args ...any) {
	c.found = append(c.found, Finding{Reason: reason, Where: where, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// ApplyCommand returns the command that makes kubeadm write the manifest again, with
// the patches of a directory of Lockstep. It restarts kube-apiserver, and not etcd.
func ApplyCommand(dir string) string {
	return "kubeadm upgrade node --etcd-upgrade=false --certificate-renewal=false --patches " + path.Join(dir, PatchesDir)
}

// again returns the commands to type if the manifest is wrong: the patches may be wrong, too.
func (c *checker) again() string {
	if slices.ContainsFunc(c.found, func(f Finding) bool { return f.Reason == PatchUnreadable }) {
		return c.Write + " && " + ApplyCommand(c.Dir)
	}
	return ApplyCommand(c.Dir)
}

// patches checks the patches, with which the next kubeadm upgrade writes the manifest.
func (c *checker) patches() {
	const lost = "the next kubeadm upgrade would write a manifest without the sidecar"
	problem := c.PodPatch.Err
	if problem == nil {
		if c.patch, problem = ParsePod(c.PodPatch.Bytes); problem == nil && c.patch.Sidecar() == nil {
			problem = fmt.Errorf("it has no container %s", Container)
		}
	}
	if problem != nil {
		c.writeFirst()
		if c.PodPatch.Err == nil { // a damaged one has to go first
			c.Write = "rm " + c.PodPatch.Path + " && " + c.Write
		}
		c.add(PatchUnreadable, c.PodPatch.Path, c.Write, "%v: %s", problem, lost)
	}
	if c.FlagsPatch.Err != nil {
		c.add(PatchUnreadable, c.FlagsPatch.Path, c.Write, "%v: the next kubeadm upgrade would remove kube-apiserver's flags for a stop without failed requests", c.FlagsPatch.Err)
	}
}

// manifest reports whether there is one with a sidecar.
func (c *checker) manifest() bool {
	err := c.Manifest.Err
	if err == nil {
		c.pod, err = ParsePod(c.Manifest.Bytes)
	}
	if err == nil && c.pod.apiserver() == nil {
		err = fmt.Errorf("it has no container kube-apiserver")
	}
	if err != nil {
		patches := " --patches " + path.Join(c.Dir, PatchesDir)
		c.add(ManifestUnreadable, c.Manifest.Path, "kubeadm init"+patches+"    # the first node\nkubeadm join --control-plane"+patches+"    # every other one", "%v: is this a control plane node of kubeadm?", err)
		return false
	}
	if c.pod.Sidecar() == nil {
		c.add(ContainerMissing, c.Manifest.Path, c.again(), "the pod has no container %s: kube-apiserver has no gate. Was kubeadm upgrade called without --patches?", Container)
		return false
	}
	return true
}

// container checks the sidecar's container.
func (c *checker) container() {
	own, wanted := c.pod.Sidecar(), c.patch.Sidecar()
	if wanted != nil && (own.Image != wanted.Image || !slices.Equal(own.Args, wanted.Args)) {
		c.add(PatchNotApplied, c.Manifest.Path, ApplyCommand(c.Dir)+"    # on one node after another", "image or arguments of the container %s are not those of %s", Container, c.PodPatch.Path)
	}
	if c.Sidecar.Err != nil {
		c.add(ArgumentsInvalid, c.Manifest.Path, c.again(), "the arguments of the container %s: %v", Container, c.Sidecar.Err)
		return
	}
	host, port, err := net.SplitHostPort(c.Sidecar.Listen)
	scheme := "HTTP"
	if c.Sidecar.TLS {
		scheme = "HTTPS"
	}
	for _, p := range []struct {
		name, path, without string
		has                 *probe
	}{
		{"startup", "/livez", "a slow start would count as a failure", own.StartupProbe},
		{"readiness", "/readyz", "the pod is ready while the gate is closed", own.ReadinessProbe},
		{"liveness", "/livez", "a sidecar that hangs is not restarted", own.LivenessProbe},
	} {
		switch {
		case p.has == nil || p.has.HTTPGet == nil || p.has.HTTPGet.Path != p.path:
			c.add(ProbeMissing, c.Manifest.Path, c.again(), "the container %s has no %s probe of %s: %s", Container, p.name, p.path, p.without)
		case err == nil && fmt.Sprint(p.has.HTTPGet.Port) != port:
			c.add(ProbeMissing, c.Manifest.Path, c.again(), "the %s probe of the container %s asks port %v, and the sidecar listens on %s", p.name, Container, p.has.HTTPGet.Port, port)
		case err == nil && !c.reaches(p.has.HTTPGet.Host, host):
			c.add(ProbeMissing, c.Manifest.Path, c.again(), "the %s probe of the container %s asks host %q, and the sidecar listens on %s; without a host, the kubelet asks the address of the node",
				p.name, Container, p.has.HTTPGet.Host, c.Sidecar.Listen)
		case cmp.Or(p.has.HTTPGet.Scheme, "HTTP") != scheme:
			c.add(ProbeMissing, c.Manifest.Path, c.again(), "the %s probe of the container %s uses %s, and the sidecar serves %s", p.name, Container, cmp.Or(p.has.HTTPGet.Scheme, "HTTP"), scheme)
		}
	}
}

// reaches reports whether a probe of a host reaches a listener. A probe without a host goes
// to the address of the node.
func (c *checker) reaches(probed, listens string) bool {
	ip, own := net.ParseIP(probed), net.ParseIP(listens)
	near := probed == "localhost" || ip.IsLoopback()
	switch {
	case listens == "" || own.IsUnspecified():
		return probed == "" || near || slices.Contains(c.Local, probed)
	case listens == "localhost":
		return near
	case own.IsLoopback():
		return probed == "localhost" || ip.Equal(own)
	}
	return probed == "" || probed == listens || ip != nil && ip.Equal(own)
}

// afterDelay is how long the end of kube-apiserver's requests takes, at least.
const afterDelay = 5 * time.Second

// stop checks that kube-apiserver outlives the notice that a stop gives to its clients.
func (c *checker) stop() {
	server, own := c.pod.apiserver(), c.pod.Sidecar()
	where := c.Manifest.Path
	if named(c.pod.Spec.InitContainers, Container) != nil {
		c.add(StoppedLast, where, "# move the container from initContainers to containers in "+c.PodPatch.Path+", then:\n"+ApplyCommand(c.Dir),
			"the container %s is a native sidecar: the kubelet stops it after kube-apiserver, so the gate is open while kube-apiserver stops", Container)
	}
	grace := time.Duration(c.pod.grace()) * time.Second
	delay, err := time.ParseDuration(server.flag("shutdown-delay-duration"))
	if err != nil || delay <= 0 {
		c.add(DelayMissing, where, c.again(), "kube-apiserver has no --shutdown-delay-duration: it stops at the same moment as the sidecar, before load balancers notice")
	}
	if again, _ := strconv.ParseBool(server.flag("shutdown-send-retry-after")); !again {
		c.add(RetryAfterMissing, where, c.again(), "kube-apiserver has no --shutdown-send-retry-after=true: on a stop, requests on open connections fail, and open watches hold up its end")
	}
	longer := func(least time.Duration) string {
		return fmt.Sprintf("# set terminationGracePeriodSeconds to %d or more in %s, then:\n%s", int(least.Seconds()), c.PodPatch.Path, ApplyCommand(c.Dir))
	}
	if least := max(delay, c.Sidecar.ShutdownDelay) + afterDelay; grace < least {
		c.add(GraceTooShort, where, longer(least), "the grace period of the pod is %s; a stop takes %s at least (the longest delay and %s): the kubelet would kill the containers before", grace, least, afterDelay)
	}
	for _, container := range []*ContainerSpec{server, own} {
		hook := container.Lifecycle.PreStop
		if hook == nil {
			continue
		}
		const remedy = "# remove the preStop hook, from your patches too, then:\n"
		if sleeps := hook.Sleep; sleeps != nil && time.Duration(sleeps.Seconds)*time.Second+delay+afterDelay > grace {
			c.add(PreStop, where, remedy+ApplyCommand(c.Dir), "the preStop hook of %s sleeps %d s, its delay is %s: together they do not fit into the grace period of %s",
				container.Name, sleeps.Seconds, delay, grace)
			continue
		}
		c.add(PreStop, where, remedy+ApplyCommand(c.Dir), "%s has a preStop hook: it gets its signal later than the other container, so its address leaves the Service too late", container.Name)
	}
	if said, found := own.Variable("LOCKSTEP_TERMINATION_GRACE_PERIOD"); found {
		// In whole seconds, or as a duration.
		if d, err := time.ParseDuration(strings.TrimSuffix(said, "s") + "s"); err != nil || d != grace {
			c.add(GraceUnknown, where, "# set LOCKSTEP_TERMINATION_GRACE_PERIOD to "+grace.String()+" in "+c.PodPatch.Path+", then:\n"+ApplyCommand(c.Dir),
				"LOCKSTEP_TERMINATION_GRACE_PERIOD is %q, and the grace period of the pod is %s: the sidecar cannot warn of a delay that is too long", said, grace)
		}
	}
}

// endpoints checks that exactly one of the two writes the Service kubernetes.
func (c *checker) endpoints() {
	none := c.pod.apiserver().flag("endpoint-reconciler-type") == "none"
	switch {
	case c.Sidecar.Err != nil || none == c.Sidecar.KubernetesService:
	case none:
		c.add(EndpointsUnwritten, c.Manifest.Path, c.withFlag("--kubernetes-service")+"\n"+ApplyCommand(c.Dir),
			"kube-apiserver has --endpoint-reconciler-type=none and the sidecar no --kubernetes-service: neither writes the addresses of the Service kubernetes")
	default:
		c.add(EndpointsContested, c.Manifest.Path, c.Write+"\n"+ApplyCommand(c.Dir),
			"the sidecar has --kubernetes-service and kube-apiserver no --endpoint-reconciler-type=none: both write the addresses of the Service kubernetes")
	}
}

func (c *checker) kubeconfig() {
	k := c.Kubeconfig
	if k.Err != nil {
		c.add(KubeconfigUnreadable, k.Path, c.Write, "%v", k.Err)
		return
	}
	own := c.Local
	if host, _, err := net.SplitHostPort(c.pod.Endpoint()); err == nil {
		own = []string{host, "127.0.0.1", "::1"}
	}
	if !slices.ContainsFunc(k.Addresses, func(a string) bool { return slices.Contains(own, a) }) {
		c.add(KubeconfigElsewhere, k.Path, c.Write, "its server %s is not the kube-apiserver of this node (%s): a load balancer sends nothing to a node that is not ready, so such a node could never become the leader",
			k.Server, strings.Join(own, ", "))
	}
	switch {
	case slices.Contains(k.Groups, "system:masters"):
		c.add(IdentityShared, k.Path, c.Write, "its user %s is in the group system:masters: all rights, which cannot be taken away. Is it a copy of super-admin.conf? The sidecar needs a user of its own, %s", k.User, User(c.Node))
	case k.User != "" && k.User != User(c.Node):
		c.add(IdentityShared, k.Path, c.Write, "its user is %s, not that of this node, %s", k.User, User(c.Node))
	}
}

// ExpiresSoon is how long before its end a certificate is a finding.
const ExpiresSoon = 30 * 24 * time.Hour

func (c *checker) certificates() {
	for _, f := range c.Certificates {
		switch left := f.Until.Sub(c.Now); {
		case f.Unread != nil:
			c.add(FileUnreadable, f.Path, f.Renew, "%s: %v", f.Name, f.Unread)
		case f.Until.IsZero():
		case left <= 0:
			c.add(CertificateExpires, f.Path, f.Renew, "%s has expired on %s", f.Name, f.Until.UTC().Format(time.DateOnly))
		case left < ExpiresSoon:
			c.add(CertificateExpires, f.Path, f.Renew, "%s expires on %s", f.Name, f.Until.UTC().Format(time.DateOnly))
		}
	}
}

func (c *checker) bundle() {
	if c.BundleErr != nil {
		remedy := c.Write
		if !strings.Contains(remedy, " --bundle ") {
			remedy += " --bundle DIR"
		}
		c.add(BundleInvalid, cmp.Or(c.BundleDir, c.Manifest.Path), remedy, "%v", c.BundleErr)
	}
}

func (c *checker) rights() {
	switch {
	case c.AskRefused:
		c.add(APIUnreachable, c.Kubeconfig.Server, c.Write+" --check", "the rights of the sidecar are unknown; ask again in some seconds: %v", c.RightsErr)
	case c.RightsErr != nil && c.Kubeconfig.Err == nil:
		c.add(APIUnreachable, c.Kubeconfig.Server, "crictl ps -a --name kube-apiserver", "the rights of the sidecar are unknown: %v", c.RightsErr)
	case len(c.Missing) > 0:
		c.add(RightsMissing, c.Kubeconfig.User,
			"kubectl --kubeconfig "+c.Admin+" --server "+c.Kubeconfig.Server+" apply -k "+path.Join(c.Dir, ClusterDir),
			"%s has the rights for the bundle, as %s has written it; the user may not: %s", path.Join(c.Dir, ClusterDir, BundleRights), c.Write, strings.Join(c.Missing, "; "))
	}
}

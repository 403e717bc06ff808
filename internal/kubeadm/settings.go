package kubeadm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/internal/semver"
)

// Settings are the differences between the patches of clusters and releases.
type Settings struct {
	Image string
	// Dir is the directory of Lockstep on the node; empty: DefaultDir.
	Dir string
	// Bundle is the directory of the bundle, as the container sees it, or the name of the
	// built-in bundle; empty: the patch names none.
	Bundle string
	// Args are flags of sidecar run, as --name=value. They replace flags of the same name
	// in the patch.
	Args []string
}

const bundleFlag = "bundle"

// ReadSettings returns the settings with which a patch was written.
func ReadSettings(patch []byte) (Settings, error) {
	pod, err := ParsePod(patch)
	if err != nil {
		return Settings{}, err
	}
	c := pod.Sidecar()
	if c == nil {
		return Settings{}, fmt.Errorf("has no container %s", Container)
	}
	out := Settings{Image: c.Image, Bundle: flagOf(c.Args, bundleFlag)}
	common := templateArgs()
	for _, arg := range c.Args {
		if flagName(arg) != bundleFlag && !slices.Contains(common, arg) {
			out.Args = append(out.Args, arg)
		}
	}
	return out, nil
}

// templateArgs returns the arguments in the embedded patch.
func templateArgs() []string {
	pod, err := ParsePod(embedded(PatchesDir + "/" + PodPatch))
	must(err)
	return pod.Sidecar().Args
}

// RunArgs returns all arguments of the sidecar, the first of which is run.
func (s Settings) RunArgs() []string {
	out := templateArgs()
	replace := func(name, with string) {
		i := slices.IndexFunc(out, func(arg string) bool { return strings.HasPrefix(arg, "--") && flagName(arg) == name })
		switch {
		case i < 0:
			out = append(out, with)
		case with == "":
			out = slices.Delete(out, i, i+1)
		default:
			out[i] = with
		}
	}
	chosen := ""
	if s.Bundle != "" {
		chosen = "--" + bundleFlag + "=" + s.Bundle
	}
	replace(bundleFlag, chosen)
	for _, arg := range s.Args {
		replace(flagName(arg), arg)
	}
	return out
}

// The parts of the patch that differ.
const (
	imageLine   = "    image: lockstep\n"
	argsLine    = "    args:\n"
	envLine     = "    env:\n"
	volumePath  = "{path: /etc/lockstep,"
	probeTarget = "{host: 127.0.0.1, port: " + nodeaddress.DefaultPort + ", scheme: HTTP,"
)

// mountLine mounts a file of kubeadm into the container. Patch leaves it out where no
// flag names the file: it may be missing on the node.
var mountLine = regexp.MustCompile(`(?m)^    - \{name: k8s-certs, mountPath: ([^,]+),.*\n`)

// Patch returns the file PodPatch.
func (s Settings) Patch() []byte {
	text := string(embedded(PatchesDir + "/" + PodPatch))
	args := s.RunArgs()
	head, rest, _ := strings.Cut(text, argsLine)
	_, tail, _ := strings.Cut(rest, envLine)
	var b strings.Builder
	b.WriteString(strings.Replace(head, imageLine, "    image: "+scalar(s.Image)+"\n", 1) + argsLine)
	for _, arg := range args {
		b.WriteString("    - " + scalar(arg) + "\n")
	}
	tail = strings.ReplaceAll(tail, probeTarget, probeOf(args))
	tail = strings.Replace(tail, volumePath, "{path: "+scalar(cmp.Or(s.Dir, DefaultDir))+",", 1)
	tail = mountLine.ReplaceAllStringFunc(tail, func(line string) string {
		file := mountLine.FindStringSubmatch(line)[1]
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, "="+file) }) {
			return line
		}
		return ""
	})
	b.WriteString(portLines(args) + envLine + tail)
	return []byte(b.String())
}

// AppliedTo reports whether a manifest matches these settings: the sidecar's
// container, and the flags that kube-apiserver needs beside it.
func (s Settings) AppliedTo(pod Pod) bool {
	own := pod.Sidecar()
	return own != nil && own.Image == s.Image && slices.Equal(own.Args, s.RunArgs()) &&
		pod.hasFlags(s.Files()[PatchesDir+"/"+FlagsPatch])
}

// GoesBack returns the release of the bundle if the manifest names a bundle of a newer one; empty: it
// does not, or one release is unknown.
func (s Settings) GoesBack(pod Pod) string {
	own := pod.Sidecar()
	if own == nil {
		return ""
	}
	now, nowErr := semver.ParseVersion(path.Base(own.flag(bundleFlag)))
	next, nextErr := semver.ParseVersion(path.Base(s.Bundle))
	if nowErr != nil || nextErr != nil || !next.Release.Less(now.Release) {
		return ""
	}
	return next.Release.String()
}

// hasFlags reports whether the manifest has the flags of kube-apiserver in a file FlagsPatch, if
// that is valid.
func (p Pod) hasFlags(patch []byte) bool {
	type added struct{ Value string }
	var all []added
	api := p.apiserver()
	return yaml.Unmarshal(patch, &all) != nil || api == nil ||
		!slices.ContainsFunc(all, func(a added) bool { return !slices.Contains(api.Command, a.Value) })
}

// listener returns where a program on the node reaches the sidecar.
func listener(args []string) (host, port, scheme string) {
	host, port, err := net.SplitHostPort(flagOf(args, "listen"))
	if err != nil {
		return "", "", ""
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme = "HTTP"
	if flagOf(args, "tls-cert-file") != "" {
		scheme = "HTTPS"
	}
	return host, port, scheme
}

// probeOf returns where the kubelet asks the sidecar.
func probeOf(args []string) string {
	host, port, scheme := listener(args)
	if port == "" {
		return probeTarget
	}
	return fmt.Sprintf("{host: %s, port: %s, scheme: %s,", scalar(host), port, scheme)
}

var plain = regexp.MustCompile(`^[A-Za-z0-9/$-][A-Za-z0-9_./=$()@,-]*(:[A-Za-z0-9_./=$()@,-]+)*$`)

// scalar returns a value of YAML. JSON is YAML.
func scalar(s string) string {
	if plain.MatchString(s) {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must(e.Encode(s))
	return strings.TrimSpace(b.String())
}

// Environment returns the file EnvFile: variables with which the commands of sidecar on the
// node reach the same etcd, the same kube-apiserver and the sidecar itself.
func (s Settings) Environment() []byte {
	var b strings.Builder
	b.WriteString("# Written by sidecar kubeadm. Type: . FILE\n")
	args := s.RunArgs()
	set := func(flag, value string) {
		value = strings.Replace(value, DefaultDir+"/", cmp.Or(s.Dir, DefaultDir)+"/", 1)
		fmt.Fprintf(&b, "export LOCKSTEP_%s='%s'\n", strings.ToUpper(strings.ReplaceAll(flag, "-", "_")), strings.ReplaceAll(value, "'", `'\''`))
	}
	for _, flag := range []string{"etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "etcd-prefix", "kubeconfig"} {
		if value := flagOf(args, flag); value != "" {
			set(flag, value)
		}
	}
	if host, port, scheme := listener(args); port != "" {
		set("server", strings.ToLower(scheme)+"://"+net.JoinHostPort(host, port))
	}
	if s.ServesHTTPS() {
		set("certificate-authority", DefaultDir+"/"+CAFile)
		set("client-certificate", DefaultDir+"/"+ClientCert)
		set("client-key", DefaultDir+"/"+ClientKey)
	}
	return []byte(b.String())
}

// Overlay returns the settings, overridden by the fields of newer that are set. A flag
// of newer.Args replaces a flag of the same name.
func (s Settings) Overlay(newer Settings) Settings {
	s.Image, s.Bundle = cmp.Or(newer.Image, s.Image), cmp.Or(newer.Bundle, s.Bundle)
	s.Args = slices.DeleteFunc(slices.Clone(s.Args), func(arg string) bool {
		return slices.ContainsFunc(newer.Args, func(other string) bool { return flagName(other) == flagName(arg) })
	})
	s.Args = append(s.Args, newer.Args...)
	return s
}

// writeFirst makes Write the command of a node on which no patch has the settings of a call before: they are those of the
// manifest, or DIR and IMAGE.
func (c *checker) writeFirst() {
	image, dir, args := "IMAGE", "DIR", []string(nil)
	if now, err := ReadSettings(c.Manifest.Bytes); err == nil {
		image, args = now.Image, now.Args
		if c.BundleDir != "" && c.BundleErr == nil {
			dir = c.BundleDir
		}
	}
	c.Write += " --image " + image + " --bundle " + dir
	if len(args) > 0 {
		c.Write += " -- " + strings.Join(args, " ")
	}
}

// withFlag is Write with one more flag of sidecar run.
func (c *checker) withFlag(flag string) string {
	if strings.Contains(c.Write, " -- ") {
		return c.Write + " " + flag
	}
	return c.Write + " -- " + flag
}

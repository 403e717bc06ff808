package service

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/role/service/process"
	"github.com/lockstep-dev/lockstep/role/service/readiness"
	"github.com/lockstep-dev/lockstep/strict"
)

// A name is part of the name of a file.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// service reads a whole file. It leaves out invalid fields: the problems keep the result from being
// used.
func (r *reader) service(root *strict.Node) Service {
	f, ok := r.fields(root, "", "apiVersion", "kind", "metadata", "role", driverProcess, driverSystemdUnit, driverStaticPod, "readiness", "stopTimeout", "required", "restart")
	if !ok {
		return Service{}
	}
	f.equals("apiVersion", apiVersion)
	f.equals("kind", kind)
	s := Service{Name: r.name(f), Role: r.role(f), StopTimeout: f.duration("stopTimeout", DefaultStopTimeout)}
	switch f.oneOf("driver", driverProcess, driverSystemdUnit, driverStaticPod) {
	case driverProcess:
		s.Process = r.process(root.Get(driverProcess))
	case driverSystemdUnit:
		s.SystemdUnit = r.systemdUnit(root.Get(driverSystemdUnit))
	case driverStaticPod:
		s.StaticPod = r.staticPod(root.Get(driverStaticPod))
	}
	if f.has("readiness") {
		s.Readiness = r.readiness(root.Get("readiness"))
	}
	s.Optional = f.has("required") && !f.boolean("required")
	switch restart := f.text("restart"); restart {
	case "", RestartImmediately:
	case RestartInTurn:
		s.Restart = restart
	default:
		f.add("restart", "must be %s or %s", RestartInTurn, RestartImmediately)
	}
	if s.StaticPod != nil && (s.Readiness == nil || s.Readiness.Exec != nil) {
		r.add(root.Line, "a static pod needs readiness.httpGet or readiness.tcpSocket: that nothing listens there any more shows that the pod has ended")
	}
	return s
}

func (r *reader) name(f fields) string {
	if !f.has("metadata") {
		f.add("metadata", "is missing; it needs a name")
		return ""
	}
	metadata, ok := r.fields(f.node.Get("metadata"), "metadata.", "name")
	if !ok {
		return ""
	}
	name := metadata.required("name")
	switch {
	case name == "":
	case !validName.MatchString(name):
		metadata.add("name", "must be up to 63 lower case letters, digits and hyphens, and begin and end with a letter or digit")
	default:
		r.unique(r.names, "metadata.name", name, r.at.At(metadata.node.Get("name").Line))
	}
	return name
}

func (r *reader) role(f fields) string {
	role := f.required("role")
	if role != "" && !slices.Contains(protocol.RoleNames(), role) {
		f.add("role", "must be one of %s", strings.Join(protocol.RoleNames(), ", "))
	}
	return role
}

func (r *reader) process(n *strict.Node) *Process {
	f, ok := r.fields(n, "process.", "command", "args", "env", "workingDir", "user", "group", "output")
	if !ok {
		return nil
	}
	p := &Process{Command: r.command(f), Env: r.env(f), WorkingDir: f.text("workingDir"), Output: r.output(f)}
	p.User, p.Group = r.user(f)
	p.Command = append(p.Command, f.list("args")...)
	if p.WorkingDir != "" {
		check := directory
		if p.User != "" {
			check = anyDirectory // it may be that user's
		}
		r.place(f, "workingDir", p.WorkingDir, check)
	}
	return p
}

// user reads the user and the group of the process.
func (r *reader) user(f fields) (name, group string) {
	name, group = f.text("user"), f.text("group")
	switch {
	case group != "" && !f.has("user"):
		f.add("group", "needs user")
	case name != "" && r.here:
		if _, err := process.Lookup(name, group); err != nil {
			f.add("user", "cannot be used: %v", err)
		}
	}
	return name, group
}

// command reads a program, as a path, and its arguments.
func (r *reader) command(f fields) []string {
	if !f.has("command") {
		f.add("command", "is missing; it is a list with the program, as a path, and its arguments")
		return nil
	}
	out := f.list("command")
	if len(out) == 0 {
		f.add("command", "must have the program as its first item")
		return nil
	}
	sample, _ := expand(out[0], samples().byName())
	if sample == out[0] { // else it is known at run time only
		r.place(f, "command", out[0], executable)
	}
	return out
}

// place checks a path: it must be absolute and, for this machine, pass check.
func (r *reader) place(f fields, field, path string, check func(string) string) {
	if !filepath.IsAbs(path) {
		f.add(field, "must be an absolute path, got %q", path)
		return
	}
	if !r.here {
		return
	}
	if problem := check(path); problem != "" {
		f.add(field, "%q %s", path, problem)
	}
}

// env reads a list of names and values, as in a container.
func (r *reader) env(f fields) []string {
	n := f.node.Get("env")
	if n == nil {
		return nil
	}
	if n.Kind != strict.Sequence {
		f.add("env", "must be a list of items with name and value")
		return nil
	}
	var out []string
	for i, item := range n.Items {
		where := "env[" + strconv.Itoa(i) + "]"
		e, ok := r.fields(item, f.path+where+".", "name", "value")
		if !ok {
			continue
		}
		name, value := e.required("name"), ""
		if strings.Contains(name, "=") {
			e.add("name", "must not have a =")
		}
		if v := item.Get("value"); v != nil {
			if value, ok = v.Text(); !ok {
				e.add("value", "must be a string; put it in quotes if it is a number or a word like true")
				continue
			}
			if strings.ContainsRune(value, 0) {
				e.add("value", "has a NUL character")
			}
			e.expanded(v.Line, "value", value)
		}
		out = append(out, name+"="+value)
	}
	return out
}

func (r *reader) output(f fields) Output {
	if !f.has("output") {
		return Output{}
	}
	o, ok := r.fields(f.node.Get("output"), "process.output.", "file", "maxSizeMiB", "backups", "status")
	if !ok {
		return Output{}
	}
	if !o.has("file") && (!o.has("status") || o.has("maxSizeMiB") || o.has("backups")) {
		o.add("file", "is missing")
	}
	if o.has("status") {
		o.equals("status", StatusNone)
	}
	out := Output{File: o.text("file"), Status: o.text("status"), MaxSizeMiB: o.number("maxSizeMiB", DefaultMaxSizeMiB, 1, 10240), Backups: o.number("backups", DefaultBackups, 1, 1000)}
	if out.File != "" {
		r.place(o, "file", out.File, func(path string) string { return directory(filepath.Dir(path)) })
		r.unique(r.outputs, "process.output.file", filepath.Clean(out.File), r.at.At(o.node.Get("file").Line))
	}
	return out
}

var validUnit = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,240}\.service$`)

func (r *reader) systemdUnit(n *strict.Node) *SystemdUnit {
	f, ok := r.fields(n, "systemdUnit.", "name")
	if !ok {
		return nil
	}
	name := f.required("name")
	switch {
	case name == "":
	case !validUnit.MatchString(name):
		f.add("name", "must be the full name of a unit, like kube-apiserver.service")
	default:
		r.unique(r.units, "systemdUnit.name", name, r.at.At(n.Get("name").Line))
	}
	return &SystemdUnit{Name: name}
}

func (r *reader) staticPod(n *strict.Node) *StaticPod {
	f, ok := r.fields(n, "staticPod.", "manifest", "directory")
	if !ok {
		return nil
	}
	p := &StaticPod{Manifest: f.required("manifest"), Directory: f.required("directory")}
	if p.Manifest != "" {
		p.Content = r.manifest(f, p.Manifest)
	}
	if p.Directory != "" {
		r.place(f, "directory", p.Directory, directory)
	}
	return p
}

// readiness reads a probe, with the field names of a kubelet's probe.
func (r *reader) readiness(n *strict.Node) *readiness.Config {
	f, ok := r.fields(n, "readiness.", "httpGet", "exec", "tcpSocket",
		"initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
	if !ok {
		return nil
	}
	c := &readiness.Config{
		InitialDelay:     f.seconds("initialDelaySeconds", 0, 0),
		Period:           f.seconds("periodSeconds", readiness.DefaultPeriod, 1),
		Timeout:          f.seconds("timeoutSeconds", readiness.DefaultTimeout, 1),
		SuccessThreshold: f.number("successThreshold", readiness.DefaultSuccessThreshold, 1, 1000),
		FailureThreshold: f.number("failureThreshold", readiness.DefaultFailureThreshold, 1, 1000),
	}
	switch probe := f.oneOf("probe", "httpGet", "exec", "tcpSocket"); probe {
	case "httpGet":
		c.HTTPGet = r.httpGet(n.Get(probe))
	case "exec":
		c.Exec = r.exec(n.Get(probe))
	case "tcpSocket":
		c.TCPSocket = r.tcpSocket(n.Get(probe))
	}
	return c
}

func (r *reader) httpGet(n *strict.Node) *readiness.HTTPGet {
	f, ok := r.fields(n, "readiness.httpGet.", "url", "caFile", "insecureSkipVerify")
	if !ok {
		return nil
	}
	get := &readiness.HTTPGet{InsecureSkipVerify: f.boolean("insecureSkipVerify")}
	var sample string
	get.URL, sample = f.variable("url")
	u, err := url.Parse(sample)
	if sample != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		f.add("url", "must be a URL like https://127.0.0.1:6443/readyz")
	}
	if !f.has("caFile") {
		return get
	}
	// The file need not exist yet: the service may write it.
	get.CAFile, sample = f.variable("caFile")
	if sample != "" && !filepath.IsAbs(sample) {
		f.add("caFile", "must be an absolute path, got %q", get.CAFile)
	}
	if get.InsecureSkipVerify {
		f.add("caFile", "has no effect with insecureSkipVerify; remove one of them")
	}
	return get
}

func (r *reader) exec(n *strict.Node) *readiness.Exec {
	f, ok := r.fields(n, "readiness.exec.", "command")
	if !ok {
		return nil
	}
	return &readiness.Exec{Command: r.command(f)}
}

func (r *reader) tcpSocket(n *strict.Node) *readiness.TCPSocket {
	f, ok := r.fields(n, "readiness.tcpSocket.", "address")
	if !ok {
		return nil
	}
	address, sample := f.variable("address")
	host, port, err := net.SplitHostPort(sample)
	number, badPort := strconv.Atoi(port)
	if sample != "" && (err != nil || host == "" || badPort != nil || number < 1 || number > 65535) {
		f.add("address", "must be HOST:PORT, like 127.0.0.1:6443")
	}
	return &readiness.TCPSocket{Address: address}
}

package service

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/role/service/process"
	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/protocol"
)

// A name is part of the name of a file.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// document is a service's file.
type document struct {
	APIVersion string `field:"apiVersion" required:"" want:"lockstep.dev/v1"`
	Kind       string `field:"kind" required:"" want:"Service"`
	Metadata   struct {
		Name string `field:"name" required:""`
	} `field:"metadata" required:"it needs a name"`
	Role        string            `field:"role" required:""`
	Process     *processFields    `field:"process"`
	SystemdUnit *SystemdUnit      `field:"systemdUnit"`
	StaticPod   *StaticPod        `field:"staticPod"`
	Readiness   *readiness.Config `field:"readiness"`
	StopTimeout time.Duration     `field:"stopTimeout"`
	Required    bool              `field:"required"`
	Restart     string            `field:"restart"`
}

// processFields are a Process in a file.
type processFields struct {
	Command    []string   `field:"command" required:"it is a list with the program, as a path, and its arguments" variables:""`
	Args       []string   `field:"args" variables:""`
	Env        []variable `field:"env"`
	WorkingDir string     `field:"workingDir"`
	User       string     `field:"user"`
	Group      string     `field:"group"`
	Output     Output     `field:"output"`
}

// variable is a variable of the environment, as in a container.
type variable struct {
	Name  string `field:"name" required:""`
	Value string `field:"value" empty:"" variables:""`
}

// service reads a whole file. It leaves out invalid fields: the problems keep the result from being
// used.
func (l *loader) service(d strict.Document) Service {
	in := document{StopTimeout: DefaultStopTimeout, Required: true}
	decoder := strict.Decoder{Problems: &l.problems, Variables: variableProblems}
	f, ok := decoder.Decode(d, "service", &in)
	if !ok {
		return Service{}
	}
	s := Service{
		Name: in.Metadata.Name, Role: in.Role, SystemdUnit: in.SystemdUnit, StaticPod: in.StaticPod, Readiness: in.Readiness,
		StopTimeout: in.StopTimeout, Optional: !in.Required,
	}
	l.name(f.In("metadata"), s.Name)
	if s.Role != "" && !slices.Contains(protocol.RoleNames(), s.Role) {
		f.Add("role", "must be one of %s", strings.Join(protocol.RoleNames(), ", "))
	}
	f.OneOf("driver", driverProcess, driverSystemdUnit, driverStaticPod)
	if in.Process != nil {
		s.Process = l.process(f.In(driverProcess), in.Process)
	}
	if s.SystemdUnit != nil {
		l.systemdUnit(f.In(driverSystemdUnit), s.SystemdUnit.Name)
	}
	if s.StaticPod != nil {
		l.staticPod(f.In(driverStaticPod), s.StaticPod)
	}
	if s.Readiness != nil {
		l.readiness(f.In("readiness"), s.Readiness)
	}
	switch in.Restart {
	case "", RestartInTurn:
	case RestartImmediately:
		s.Restart = in.Restart
	default:
		f.Add("restart", "must be %s or %s", RestartInTurn, RestartImmediately)
	}
	if s.StaticPod != nil && (s.Readiness == nil || s.Readiness.Exec != nil) {
		l.problems.Add(d.At, "a static pod needs readiness.httpGet or readiness.tcpSocket: that nothing listens there any more shows that the pod has ended")
	}
	return s
}

// variableProblems explains each unknown variable in a text.
func variableProblems(text string) []string {
	var out []string
	_, unknown := expand(text, samples().byName())
	for _, name := range unknown {
		out = append(out, fmt.Sprintf("unknown variable $(%s); known are %s; write $$(%s) if it is text", name, strings.Join(VariableNames(), ", "), name))
	}
	return out
}

// sample returns a text with sample values of its variables.
func sample(text string) string {
	out, _ := expand(text, samples().byName())
	return out
}

func (l *loader) name(f strict.Fields, name string) {
	switch {
	case name == "":
	case !validName.MatchString(name):
		f.Add("name", "must be up to 63 lower case letters, digits and hyphens, and begin and end with a letter or digit")
	default:
		l.unique("metadata.name", name, f.Place("name"))
	}
}

func (l *loader) process(f strict.Fields, in *processFields) *Process {
	p := &Process{
		Command: append(l.command(f, in.Command), in.Args...), WorkingDir: in.WorkingDir,
		User: in.User, Group: in.Group, Output: in.Output,
	}
	for i, v := range in.Env {
		if strings.Contains(v.Name, "=") {
			f.AddAt(f.Node.Get("env").Items[i].Line, fmt.Sprintf("env[%d].name", i), "must not have a =")
		}
		p.Env = append(p.Env, v.Name+"="+v.Value)
	}
	switch {
	case p.Group != "" && !f.Has("user"):
		f.Add("group", "needs user")
	case p.User != "" && l.here:
		if _, err := process.Lookup(p.User, p.Group); err != nil {
			f.Add("user", "cannot be used: %v", err)
		}
	}
	if p.WorkingDir != "" {
		check := directory
		if p.User != "" {
			check = anyDirectory // it may be that user's
		}
		l.place(f, "workingDir", p.WorkingDir, check)
	}
	if f.Has("output") {
		l.output(f.In("output"), &p.Output)
	}
	return p
}

// command checks a program, as a path, and its arguments.
func (l *loader) command(f strict.Fields, command []string) []string {
	n := f.Node.Get("command")
	switch {
	case n == nil || n.Kind != strict.Sequence:
	case len(n.Items) == 0:
		f.Add("command", "must have the program as its first item")
	case sample(command[0]) != command[0]: // no check of today's file would hold for the file that is run
		f.Add("command", "must have no variable in its first item, the program, got %q", command[0])
	default:
		l.place(f, "command", command[0], executable)
	}
	return command
}

// place checks a path: it must be absolute and, for this machine, pass check.
func (l *loader) place(f strict.Fields, field, path string, check func(string) string) {
	if !filepath.IsAbs(path) {
		f.Add(field, "must be an absolute path, got %q", path)
		return
	}
	if !l.here {
		return
	}
	if problem := check(path); problem != "" {
		f.Add(field, "%q %s", path, problem)
	}
}

func (l *loader) output(f strict.Fields, out *Output) {
	if !f.Has("file") && (!f.Has("status") || f.Has("maxSizeMiB") || f.Has("backups")) {
		f.Add("file", "is missing")
	}
	out.MaxSizeMiB, out.Backups = cmp.Or(out.MaxSizeMiB, DefaultMaxSizeMiB), cmp.Or(out.Backups, DefaultBackups)
	if out.File != "" {
		l.place(f, "file", out.File, newFile)
		l.unique("process.output.file", filepath.Clean(out.File), f.Place("file"))
	}
}

var validUnit = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,240}\.service$`)

func (l *loader) systemdUnit(f strict.Fields, name string) {
	switch {
	case name == "":
	case !validUnit.MatchString(name):
		f.Add("name", "must be the full name of a unit, like kube-apiserver.service")
	default:
		l.unique("systemdUnit.name", name, f.Place("name"))
	}
}

func (l *loader) staticPod(f strict.Fields, p *StaticPod) {
	if p.Manifest != "" {
		p.Content = l.manifest(f, p.Manifest)
	}
	if p.Directory != "" {
		l.place(f, "directory", p.Directory, directory)
	}
}

func (l *loader) readiness(f strict.Fields, c *readiness.Config) {
	c.Period, c.Timeout = cmp.Or(c.Period, readiness.DefaultPeriod), cmp.Or(c.Timeout, readiness.DefaultTimeout)
	c.SuccessThreshold = cmp.Or(c.SuccessThreshold, readiness.DefaultSuccessThreshold)
	c.FailureThreshold = cmp.Or(c.FailureThreshold, readiness.DefaultFailureThreshold)
	f.OneOf("probe", "httpGet", "exec", "tcpSocket")
	if c.HTTPGet != nil {
		httpGet(f.In("httpGet"), *c.HTTPGet)
	}
	if c.Exec != nil {
		l.command(f.In("exec"), c.Exec.Command)
	}
	if c.TCPSocket != nil {
		tcpSocket(f.In("tcpSocket"), c.TCPSocket.Address)
	}
}

func httpGet(f strict.Fields, get readiness.HTTPGet) {
	address, caFile := sample(get.URL), sample(get.CAFile)
	u, err := url.Parse(address)
	if address != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		f.Add("url", "must be a URL like https://127.0.0.1:6443/readyz")
	}
	// The file need not exist yet: the service may write it.
	if caFile != "" && !filepath.IsAbs(caFile) {
		f.Add("caFile", "must be an absolute path, got %q", get.CAFile)
	}
	if f.Has("caFile") && get.InsecureSkipVerify {
		f.Add("caFile", "has no effect with insecureSkipVerify; remove one of them")
	}
}

func tcpSocket(f strict.Fields, address string) {
	address = sample(address)
	host, port, err := net.SplitHostPort(address)
	number, badPort := strconv.Atoi(port)
	if address != "" && (err != nil || host == "" || badPort != nil || number < 1 || number > 65535) {
		f.Add("address", "must be HOST:PORT, like 127.0.0.1:6443")
	}
}

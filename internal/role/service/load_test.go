package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/internal/role/service/readiness"
	"github.com/lockstep-dev/lockstep/internal/strict"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	header = "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: a}\nrole: kubernetes_controller\n" // lines 1 to 4
	good   = header + "process: {command: [/bin/sh]}\n"
	pod    = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
)

func writeDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := writeDir(t, map[string]string{
		"20.yaml": `apiVersion: lockstep.dev/v1
kind: Service
metadata: {name: kube-apiserver}
role: kubernetes_controller
process:
  command: [/bin/sh, "--etcd-servers=$(ETCD_SERVERS)", $$(NODE_ID)]
  args: ["--x=$(NODE_ID)"]
  env:
  - {name: CA, value: $(ETCD_CAFILE)}
  - {name: EMPTY}
  workingDir: /tmp
  output: {file: /var/out.log, maxSizeMiB: 20, backups: 7}
readiness:
  httpGet: {url: "https://$(NODE_ADDRESS):6443/readyz", caFile: /written/later.crt}
  initialDelaySeconds: 4
  periodSeconds: 2
  timeoutSeconds: 3
  successThreshold: 6
  failureThreshold: 5
stopTimeout: 1m30s
`,
		"10.json":        `{"apiVersion": "lockstep.dev/v1", "kind": "Service", "metadata": {"name": "unit"}, "role": "consensus_member", "systemdUnit": {"name": "x@1.service"}}`,
		"30.yml":         "apiVersion: lockstep.dev/v1\nkind: Service\nmetadata: {name: pod}\nrole: kubernetes_controller\nstaticPod: {manifest: pods/p.yaml, directory: /tmp}\nreadiness: {tcpSocket: {address: \"127.0.0.1:6443\"}}\n",
		"pods/p.yaml":    pod,
		"35.yaml":        strings.Replace(header, "name: a", "name: b", 1) + "process: {command: [/bin/sh], output: {file: /var/b.log}}\nrequired: false\n",
		"40.yaml~":       "a backup",
		".50.yaml":       "hidden",
		"README.md":      "text",
		"pods/deep.yaml": "not read",
	})
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Service{
		{Name: "unit", Role: protocol.RoleConsensus, SystemdUnit: &SystemdUnit{Name: "x@1.service"}, StopTimeout: DefaultStopTimeout},
		{
			Name: "kube-apiserver", Role: protocol.RoleController, StopTimeout: 90 * time.Second,
			Process: &Process{
				Command: []string{"/bin/sh", "--etcd-servers=$(ETCD_SERVERS)", "$$(NODE_ID)", "--x=$(NODE_ID)"},
				Env:     []string{"CA=$(ETCD_CAFILE)", "EMPTY="}, WorkingDir: "/tmp",
				Output: Output{File: "/var/out.log", MaxSizeMiB: 20, Backups: 7},
			},
			Readiness: &readiness.Config{
				HTTPGet:      &readiness.HTTPGet{URL: "https://$(NODE_ADDRESS):6443/readyz", CAFile: "/written/later.crt"},
				InitialDelay: 4 * time.Second, Period: 2 * time.Second, Timeout: 3 * time.Second, SuccessThreshold: 6, FailureThreshold: 5,
			},
		},
		{
			Name: "pod", Role: protocol.RoleController, StopTimeout: DefaultStopTimeout,
			StaticPod: &StaticPod{Manifest: "pods/p.yaml", Content: []byte(pod), Directory: "/tmp"},
			Readiness: &readiness.Config{
				TCPSocket: &readiness.TCPSocket{Address: "127.0.0.1:6443"},
				Period:    10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 3,
			},
		},
		{
			Name: "b", Role: protocol.RoleController, StopTimeout: DefaultStopTimeout, Optional: true,
			Process: &Process{Command: []string{"/bin/sh"}, Output: Output{File: "/var/b.log", MaxSizeMiB: DefaultMaxSizeMiB, Backups: DefaultBackups}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := OfRole(got, protocol.RoleController); len(got) != 3 || got[0].Name != "kube-apiserver" {
		t.Errorf("got %v", got)
	}
	expanded, err := Expand(got, Variables{EtcdServers: "https://a,https://b", EtcdCAFile: "/ca", NodeID: "n1", NodeAddress: "10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "--etcd-servers=https://a,https://b", "$(NODE_ID)", "--x=n1"}, expanded[1].Process.Command); diff != "" {
		t.Error(diff)
	}
	if e := expanded[1]; e.Process.Env[0] != "CA=/ca" || e.Readiness.HTTPGet.URL != "https://10.0.0.1:6443/readyz" {
		t.Errorf("got %v, %v", e.Process.Env, e.Readiness.HTTPGet)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Expand has changed what it was given, -want +got:\n%s", diff)
	}
	for i, name := range []string{"10.json", "20.yaml", "30.yml", "35.yaml"} {
		if source := got[i].Source; source.File != filepath.Join(dir, name) || source.Changed.IsZero() {
			t.Errorf("got %+v, want %s", source, name)
		}
	}
}

func TestLoad_problems(t *testing.T) {
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"no file":         {map[string]string{"README.md": "x"}, []string{": has no services: no file ends in"}},
		"empty":           {map[string]string{"a.yaml": ""}, []string{"a.yaml: has 0 documents, want one of kind Service"}},
		"two documents":   {map[string]string{"a.yaml": good + "---\n" + good}, []string{"a.yaml: has 2 documents"}},
		"a list":          {map[string]string{"a.yaml": "- a\n"}, []string{"a.yaml:1: a service must be a mapping"}},
		"nothing in it":   {map[string]string{"a.yaml": "x: 1\n"}, []string{`a.yaml:1: unknown field "x"`, "a.yaml:1: apiVersion is missing", "a.yaml:1: kind is missing", "a.yaml:1: metadata is missing", "a.yaml:1: role is missing", "a.yaml:1: the service has no driver; set one of process, systemdUnit, staticPod"}},
		"other kinds":     {map[string]string{"a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nrole: worker\nprocess: {command: [/bin/sh]}\n"}, []string{"a.yaml:1: apiVersion must be lockstep.dev/v1", "a.yaml:2: kind must be Service", "a.yaml:4: role must be one of"}},
		"names":           {map[string]string{"a.yaml": strings.Replace(good, "name: a", "name: A_b, x: 1", 1)}, []string{`a.yaml:3: unknown field "metadata.x"`, "a.yaml:3: metadata.name must be up to 63"}},
		"two of one name": {map[string]string{"a.yaml": good, "b.yaml": good}, []string{`b.yaml:3: metadata.name "a" is used twice, first at`, "a.yaml:3"}},
		"two of one unit": {map[string]string{"a.yaml": header + "systemdUnit: {name: x.service}\n", "b.yaml": strings.Replace(header, "name: a", "name: b", 1) + "systemdUnit:\n  name: x.service\n"}, []string{`b.yaml:6: systemdUnit.name "x.service" is used twice, first at`}},
		"another user":    {map[string]string{"a.yaml": header + "process: {command: [/bin/sh], user: no-such-user}\n"}, []string{`a.yaml:5: process.user cannot be used: user "no-such-user" does not exist`}},
		"a group alone":   {map[string]string{"a.yaml": header + "process: {command: [/bin/sh], group: root}\n"}, []string{"a.yaml:5: process.group needs user"}},
		"two drivers":     {map[string]string{"a.yaml": good + "systemdUnit: {name: a.service}\n"}, []string{"a.yaml:6: the service has process and systemdUnit; set one driver only"}},
		"a unit":          {map[string]string{"a.yaml": header + "systemdUnit: {name: kube-apiserver}\n"}, []string{"a.yaml:5: systemdUnit.name must be the full name of a unit"}},
		"durations":       {map[string]string{"a.yaml": good + "stopTimeout: 30\n", "b.yaml": strings.Replace(good, "name: a", "name: b", 1) + "stopTimeout: -1s\n"}, []string{"a.yaml:6: stopTimeout must be a duration above 0", "b.yaml:6: stopTimeout must be"}},
		"a long duration": {map[string]string{"a.yaml": good + "stopTimeout: 24h0m1s\n"}, []string{"a.yaml:6: stopTimeout must be a duration above 0 and up to 24h"}},
		"a long name":     {map[string]string{"a.yaml": strings.Replace(good, "name: a", "name: "+strings.Repeat("a", 64), 1)}, []string{"a.yaml:3: metadata.name must be up to 63"}},
		"many files":      {copies(good, maxServices+1), []string{": has more than 100 files"}},
		"outputs": {map[string]string{
			"a.yaml": header + "process:\n  command: [/bin/sh]\n  output:\n    file: /var/a.log\n    maxSizeMiB: 0\n    backups: 0\n",
			"b.yaml": strings.Replace(header, "name: a", "name: b", 1) + "process:\n  command: [/bin/sh]\n  output:\n    maxSizeMiB: 10241\n    backups: 1001\n    file: /var/x/../a.log\n",
		}, []string{
			"a.yaml:9: process.output.maxSizeMiB must be a whole number from 1 to 10240", "a.yaml:10: process.output.backups must be a whole number from 1 to 1000",
			"b.yaml:8: process.output.maxSizeMiB must be", "b.yaml:9: process.output.backups must be",
			`b.yaml:10: process.output.file "/var/a.log" is used twice, first at`, "a.yaml:8"}},
		"what /status has of the output": {map[string]string{
			"a.yaml": header + "process: {command: [/bin/sh], output: {status: all}}\n",
			"b.yaml": strings.Replace(header, "name: a", "name: b", 1) + "process: {command: [/bin/sh], output: {status: none, backups: 2}}\n",
			"c.yaml": strings.Replace(header, "name: a", "name: c", 1) + "process: {command: [/bin/sh], output: {}}\n",
		}, []string{"a.yaml:5: process.output.status must be none", "b.yaml:5: process.output.file is missing", "c.yaml:5: process.output.file is missing"}},
		"an env that is no list": {map[string]string{"a.yaml": header + "process:\n  command: [/bin/sh]\n  env: {X: y}\n"}, []string{"a.yaml:7: process.env must be a list of items with name and value"}},
		"a NUL": {map[string]string{
			"a.yaml": header + "process:\n  command: [/bin/sh, \"a\\0\"]\n  env:\n  - {name: X, value: \"\\0\"}\n  - {name: \"Y\\0\"}\n  workingDir: \"/tmp\\0\"\n",
			"b.json": `{"metadata": {"name": "\u0000"}}`,
		}, []string{
			"a.yaml:6: process.command[1] has a NUL character", "a.yaml:8: process.env[0].value has a NUL character", "a.yaml:9: process.env[1].name has a NUL character",
			"a.yaml:10: process.workingDir has a NUL character", "b.json:1: metadata.name has a NUL character"}},
		"duplicate keys":          {map[string]string{"a.yaml": good + "role: x\n"}, []string{`a.yaml:6: duplicate key "role", first at line 4`}},
		"no command":              {map[string]string{"a.yaml": header + "process:\n  command: []\n", "b.yaml": header + "process: {args: [x]}\n"}, []string{"a.yaml:6: process.command must have the program", "b.yaml:5: process.command is missing"}},
		"a variable in a program": {map[string]string{"a.yaml": header + "process: {command: [/opt/$(NODE_ID)/x]}\nreadiness: {exec: {command: [$(NODE_ID)]}}\n"}, []string{`a.yaml:5: process.command must have no variable in its first item, the program, got "/opt/$(NODE_ID)/x"`, `a.yaml:6: readiness.exec.command must have no variable in its first item, the program, got "$(NODE_ID)"`}},
		"a relative command":      {map[string]string{"a.yaml": header + "process: {command: [sh]}\n"}, []string{`a.yaml:5: process.command must be an absolute path, got "sh"`}},
		"missing files": {map[string]string{"a.yaml": header + "process:\n  command: [/nonexistent/x]\n  workingDir: /nonexistent\n  output: {file: /nonexistent/y/z}\nreadiness: {exec: {command: [/etc]}}\n"}, []string{
			`a.yaml:6: process.command "/nonexistent/x" does not exist`, `a.yaml:7: process.workingDir "/nonexistent" does not exist`,
			`a.yaml:8: process.output.file "/nonexistent/y/z" does not exist`, `a.yaml:9: readiness.exec.command "/etc" is not a file`}},
		"not executable": {map[string]string{"a.yaml": header + "process: {command: [/etc/passwd]}\n"}, []string{`"/etc/passwd" is not executable; type: chmod +x /etc/passwd`}},
		"not strings":    {map[string]string{"a.yaml": header + "process:\n  command: [/bin/sh, 5]\n  env:\n  - {name: X=, value: true}\n  - x\n"}, []string{"a.yaml:6: process.command[1] must be a string", "a.yaml:8: process.env[0].name must not have a =", "a.yaml:8: process.env[0].value must be a string", "a.yaml:9: process.env[1] must be a mapping"}},
		"unknown variables": {map[string]string{"a.yaml": header + "process:\n  command:\n  - /bin/sh\n  - $(ETCD)\n  args: [$(X)]\n  env: [{name: Y, value: $(Y)}]\nreadiness: {tcpSocket: {address: $(Z)}}\n"}, []string{
			"a.yaml:8: process.command[1]: unknown variable $(ETCD); known are ETCD_SERVERS, ETCD_CAFILE, ETCD_CERTFILE, ETCD_KEYFILE, NODE_ID, NODE_ADDRESS; write $$(ETCD) if it is text",
			"a.yaml:9: process.args[0]: unknown variable $(X)", "a.yaml:10: process.env[0].value: unknown variable $(Y)", "a.yaml:11: readiness.tcpSocket.address: unknown variable $(Z)"}},
		"probes": {map[string]string{
			"a.yaml": good + "readiness:\n  periodSeconds: 0\n  timeoutSeconds: 1.5\n  successThreshold: x\n  httpGet: {url: localhost}\n  tcpSocket: {address: x}\n",
			"b.yaml": good + "readiness: {periodSeconds: 5}\n",
			"c.yaml": good + "readiness: {httpGet: {url: localhost, caFile: ca.crt, insecureSkipVerify: maybe}}\n",
			"d.yaml": good + "readiness: {tcpSocket: {address: \":0\"}}\n",
			"e.yaml": good + "readiness: {httpGet: {url: \"https://x\", caFile: /ca.crt, insecureSkipVerify: true}}\n",
		}, []string{
			"a.yaml:7: readiness.periodSeconds must be a whole number from 1 to 86400", "a.yaml:8: readiness.timeoutSeconds must be", "a.yaml:9: readiness.successThreshold must be",
			"a.yaml:11: readiness has httpGet and tcpSocket; set one probe only", "b.yaml:6: readiness has no probe; set one of httpGet, exec, tcpSocket",
			"c.yaml:6: readiness.httpGet.url must be a URL like", `c.yaml:6: readiness.httpGet.caFile must be an absolute path, got "ca.crt"`, "c.yaml:6: readiness.httpGet.insecureSkipVerify must be true or false",
			"d.yaml:6: readiness.tcpSocket.address must be HOST:PORT", "e.yaml:6: readiness.httpGet.caFile has no effect"}},
		"numbers": {map[string]string{"a.yaml": good + "readiness:\n  initialDelaySeconds: 86401\n  periodSeconds: 86401\n  timeoutSeconds: 86401\n  successThreshold: 1001\n  failureThreshold: 1001\n  tcpSocket: {address: \"x:1\"}\n"}, []string{
			"a.yaml:7: readiness.initialDelaySeconds must be a whole number from 0 to 86400", "a.yaml:8: readiness.periodSeconds must be a whole number from 1 to 86400",
			"a.yaml:9: readiness.timeoutSeconds must be a whole number from 1 to 86400", "a.yaml:10: readiness.successThreshold must be a whole number from 1 to 1000",
			"a.yaml:11: readiness.failureThreshold must be a whole number from 1 to 1000"}},
		"manifests": {map[string]string{
			"a.yaml": staticPod("a", "pods/a.yaml"), "b.yaml": staticPod("b", "pods/b.yaml"), "c.yaml": staticPod("c", "pods"), "d.yaml": staticPod("d", "pods/d.yaml"), "e.yaml": staticPod("e", "pods/e.yaml"),
			"pods/a.yaml": pod + "---\n" + pod,
			"pods/b.yaml": "# comment\nmetadata: x\nspec:\n  hostNetwork: true\nkind: Deployment\napiVersion: apps/v1\n",
			"pods/d.yaml": "- x\n", "pods/e.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  namespace: x\n  name: 5\nspec: x\n",
		}, []string{
			"a.yaml: has 2 documents, want one Pod", "b.yaml:6: apiVersion must be v1", "b.yaml:5: kind must be Pod", "b.yaml:2: metadata must be a mapping", "b.yaml:4: spec.containers is missing",
			`c.yaml:5: staticPod.manifest "`, `pods" is not a file`, "d.yaml:1: must be a mapping",
			"e.yaml:5: metadata.name must be a string", "e.yaml:6: spec.containers is missing"}},
		"static pods": {map[string]string{
			"a.yaml": header + "staticPod: {manifest: missing.yaml, directory: /nonexistent}\n", "b.yaml": header + "staticPod: {manifest: pods/p.yaml, directory: /tmp}\nreadiness: {tcpSocket: {address: \"x:1\"}}\n",
			"pods/p.yaml": "apiVersion: apps/v1\nkind: Pod\nmetadata:\n  label: x\n"}, []string{
			`a.yaml:5: staticPod.manifest "`, `missing.yaml": no such file`, `a.yaml:5: staticPod.directory "/nonexistent" does not exist`, "a.yaml:1: a static pod needs readiness.httpGet or readiness.tcpSocket",
			"p.yaml:1: apiVersion must be v1", "p.yaml:4: metadata.name must be", "p.yaml:1: spec.containers is missing"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeDir(t, tt.files)
			_, err := Load(dir)
			if _, is := errors.AsType[*strict.LoadError](err); !is {
				t.Fatalf("got %v", err)
			}
			got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no problem has %q:\n%s", want, got)
				}
			}
		})
	}
}

// Each limit is allowed itself.
func TestLoad_limits(t *testing.T) {
	files := copies(good, maxServices-1)
	files["z.yaml"] = strings.Replace(good, "name: a", "name: "+strings.Repeat("z", 63), 1) + "stopTimeout: 24h\n" +
		"readiness: {initialDelaySeconds: 86400, periodSeconds: 86400, timeoutSeconds: 86400, successThreshold: 1000, failureThreshold: 1000, tcpSocket: {address: \"x:1\"}}\n"
	files["z.yaml"] = strings.Replace(files["z.yaml"], "[/bin/sh]", "[/bin/sh], output: {file: /var/a.log, maxSizeMiB: 10240, backups: 1000}", 1)
	if all, err := Load(writeDir(t, files)); err != nil || len(all) != maxServices {
		t.Errorf("got %d services, %v", len(all), err)
	}
}

// copies returns files with a service each, and names of their own.
func copies(service string, count int) map[string]string {
	out := map[string]string{}
	for i := range count {
		name := fmt.Sprintf("a%d", i)
		out[name+".yaml"] = strings.Replace(service, "name: a", "name: "+name, 1)
	}
	return out
}

// staticPod returns a service with a manifest.
func staticPod(name, manifest string) string {
	return strings.Replace(header, "name: a", "name: "+name, 1) + "staticPod: {manifest: " + manifest + ", directory: /tmp}\nreadiness: {tcpSocket: {address: \"x:1\"}}\n"
}

func TestLoad_noDirectory(t *testing.T) {
	if _, err := Load("/nonexistent"); err == nil || !strings.Contains(err.Error(), "open services: ") {
		t.Errorf("got %v", err)
	}
	dir := writeDir(t, map[string]string{"a.yaml": good})
	if err := os.Symlink("/dev/null", filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.HasSuffix(err.Error(), "b.yaml: is not a regular file") {
		t.Errorf("got %v", err)
	}
}

// What others can change decides what root would run: it is refused, unless it is checked for
// another machine.
func TestLoad_openToOthers(t *testing.T) {
	for name, open := range map[string]func(dir, program string) string{
		"the directory": func(dir, _ string) string { return dir },
		"a file":        func(dir, _ string) string { return filepath.Join(dir, "a.yaml") },
		"a program":     func(_, program string) string { return program },
		"its directory": func(_, program string) string { return filepath.Dir(program) },
		"a manifest":    func(dir, _ string) string { return filepath.Join(dir, "pods", "p.yaml") },
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(program, nil, 0o700); err != nil {
				t.Fatal(err)
			}
			dir := writeDir(t, map[string]string{
				"a.yaml": header + "process: {command: [" + program + "]}\n", "b.yaml": staticPod("b", "pods/p.yaml"), "pods/p.yaml": pod,
			})
			if _, err := Load(dir); err != nil {
				t.Fatal(err)
			}
			path := open(dir, program)
			if err := os.Chmod(path, 0o777); err != nil {
				t.Fatal(err)
			}
			want := "cannot be trusted: " + path + " can be changed by every user (mode 0777); if no other user has, type: chmod o-w " + path
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if _, err := Check(dir); err != nil {
				t.Errorf("for another machine: %v", err)
			}
		})
	}
}

// The sidecar writes the output of a service as root: through a link that another user made there, it
// would write into any file.
func TestLoad_outputOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	const other = 4711
	for name, test := range map[string]struct {
		given func(dir, file string) error
		want  string
	}{
		"no file yet":  {func(string, string) error { return nil }, ""},
		"its own file": {func(_, file string) error { return os.WriteFile(file, nil, 0o600) }, ""},
		"an open file": {func(_, file string) error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o666)) }, "can be changed by every user"},
		"a link": {func(_, file string) error {
			return errors.Join(os.Symlink("/etc/victim", file), os.Lchown(file, other, other))
		}, "belongs to the user with the ID 4711"},
		"a file": {func(_, file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Lchown(file, other, other))
		}, "belongs to the user with the ID 4711"},
		"a sticky place": {func(dir, _ string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) }, "other users can make a file or a link of that name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "out.log")
			if err := test.given(dir, file); err != nil {
				t.Fatal(err)
			}
			_, err := Load(writeDir(t, map[string]string{"a.yaml": header + "process: {command: [/bin/sh], output: {file: " + file + "}}\n"}))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	values := Variables{NodeID: "n", NodeAddress: "a"}.byName()
	for text, want := range map[string]string{
		"":                          "",
		"$(NODE_ID)":                "n",
		"x$(NODE_ID)y$(NODE_ID)":    "xnyn",
		"$$(NODE_ID)":               "$(NODE_ID)",
		"$$$(NODE_ID)":              "$n",
		"$$$$(NODE_ID)":             "$$(NODE_ID)",
		"$":                         "$",
		"$$":                        "$",
		"$NODE_ID":                  "$NODE_ID",
		"$(NODE_ID":                 "$(NODE_ID",
		"${NODE_ID} a) $(NODE_ID) ": "${NODE_ID} a) n ",
		"$(ETCD_CAFILE)":            "",
	} {
		if got, unknown := expand(text, values); got != want || len(unknown) > 0 {
			t.Errorf("%q: got %q, %v, want %q", text, got, unknown, want)
		}
	}
	if _, unknown := expand("$(A)$(B)$$(C)$()", values); !slices.Equal(unknown, []string{"A", "B", ""}) {
		t.Errorf("got %q", unknown)
	}
	if names := VariableNames(); len(names) != len(values) {
		t.Errorf("got %v and %v", names, values)
	}
}

// What changes is loaded within two intervals, when it has settled, and what does not change is
// not reported.
func TestWatch(t *testing.T) {
	dir := writeDir(t, map[string]string{"a.yaml": good})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = Watch(ctx, dir, time.Second, func(list []Service, err error) {
				if err != nil {
					calls = append(calls, "problem")
					return
				}
				calls = append(calls, list[0].StopTimeout.String())
			})
		}()
		later := func() { <-time.After(2 * time.Second); synctest.Wait() }
		later()
		for _, text := range []string{good + "stopTimeout: 5s\n", "", good} {
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			later()
		}
		cancel()
		<-done
		if want := []string{"30s", "5s", "problem", "30s"}; !slices.Equal(calls, want) {
			t.Errorf("got %v, want %v", calls, want)
		}
	})
}

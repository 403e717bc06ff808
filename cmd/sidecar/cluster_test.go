package main

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/clusters"
	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/cluster/pki"
	"github.com/lockstep-dev/lockstep/internal/cluster/quorum"
	"github.com/lockstep-dev/lockstep/internal/cluster/record"
	"github.com/lockstep-dev/lockstep/internal/cluster/token"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/membership"
	"github.com/lockstep-dev/lockstep/test/members"
)

// onMember runs a command with the flags of a member's certificates.
func onMember(t *testing.T, n *members.Node, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{Program: console.Program{Stdout: &out, Stderr: &errs, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}}
	args = append(args, "--etcd-servers="+n.ClientURL,
		"--etcd-cafile="+n.Dir+"/"+pki.CACertFile, "--etcd-certfile="+n.Dir+"/"+pki.NodeCertFile, "--etcd-keyfile="+n.Dir+"/"+pki.NodeKeyFile)
	code = p.main(context.WithoutCancel(t.Context()), args)
	checkPrinted(t, args, out.String()+errs.String())
	return code, out.String(), errs.String()
}

func TestClusterToken(t *testing.T) {
	c := members.New(t)
	code, out, errs := onMember(t, c.First, "cluster", "token", "create")
	found := regexp.MustCompile(`(?m)^  (lockstep1\.\S+)$`).FindStringSubmatch(out)
	if code != console.ExitOK || errs != "" || found == nil {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	parsed, err := token.Parse(found[1])
	if err != nil || parsed.CA != c.CA.Hash() {
		t.Errorf("got %v, %v", parsed, err)
	}
	typed := "  LOCKSTEP_TOKEN=" + found[1] + " sidecar run --etcd=embedded --join=" + c.First.JoinURL + "\n"
	if !strings.Contains(out, typed) || !strings.Contains(out, "Token for 1 node, valid for 1h0m0s") {
		t.Errorf("got\n%s\nwant\n%s", out, typed)
	}
	code, out, errs = onMember(t, c.First, "cluster", "token", "create", "--ttl=10m", "--uses=3", "-o", "json")
	var report clusters.TokenReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != console.ExitOK || !strings.HasPrefix(report.Command, "LOCKSTEP_TOKEN="+report.Token+" ") || time.Until(report.Expires) > 10*time.Minute {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}

	_, out, _ = onMember(t, c.First, "cluster", "token", "list")
	if !strings.Contains(out, parsed.ID+"  valid  1 of 1") || !strings.Contains(out, "3 of 3") {
		t.Errorf("got\n%s", out)
	}
	if code, out, errs := onMember(t, c.First, "cluster", "token", "revoke", parsed.ID); code != console.ExitOK || !strings.Contains(out, "token "+parsed.ID+" revoked; no node has used it") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	// The whole token is understood too, and never shown again.
	if code, out, errs := onMember(t, c.First, "cluster", "token", "revoke", report.Token); code != console.ExitOK || strings.Contains(out, report.Token) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	_, out, _ = onMember(t, c.First, "cluster", "token", "list", "-o", "json")
	if got := strings.Count(out, `"state": "revoked"`); got != 2 {
		t.Errorf("%d are revoked:\n%s", got, out)
	}
	for _, tt := range []struct {
		code int
		text string
		args []string
	}{
		{console.ExitUsage, "from 1s to", []string{"create", "--ttl=10ms"}},
		{console.ExitUsage, "from 1 to 100 uses", []string{"create", "--uses=101"}},
		{console.ExitUsage, "must be for a node too", []string{"create", "--address=10.0.0.2"}},
		{console.ExitUsage, "is not a node ID", []string{"create", "--node=B_1"}},
		{console.ExitUsage, "has one use, not 2", []string{"create", "--node=b", "--uses=2"}},
		{console.ExitUsage, "is not an IP address", []string{"create", "--node=b", "--address=b.example"}},
		{console.ExitUsage, "is not the ID of a token", []string{"revoke", "nope"}},
		{console.ExitFailed, "there is no token zzzzzz", []string{"revoke", "zzzzzz"}},
		{console.ExitUsage, "expected one ID", []string{"revoke"}},
		{console.ExitUsage, "set either this or --data-dir", []string{"list", "--data-dir=" + c.First.Dir}},
	} {
		code, out, errs := onMember(t, c.First, append([]string{"cluster", "token"}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.text) {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", tt.args, code, tt.code, tt.text, out, errs)
		}
	}
}

// TestClusterToken_node: a token that is bound to a node prints the flags of that node, and
// lists name it.
func TestClusterToken_node(t *testing.T) {
	c := members.New(t)
	code, out, errs := onMember(t, c.First, "cluster", "token", "create", "--node=b", "--address=10.0.0.2", "-o", "json")
	var report clusters.TokenReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != console.ExitOK {
		t.Fatalf("exit %d: %v: %s%s", code, err, out, errs)
	}
	want := "LOCKSTEP_TOKEN=" + report.Token + " sidecar run --etcd=embedded --node-id=b --node-address=10.0.0.2 --join=" + c.First.JoinURL
	if report.Command != want || report.Node != "b" || report.Address != "10.0.0.2" {
		t.Errorf("got %+v, want the command %s", report, want)
	}
	if code, out, errs := onMember(t, c.First, "cluster", "token", "create", "--node=c"); code != console.ExitOK || !strings.Contains(out, "Token for node c, valid for") || !strings.Contains(out, " --node-id=c --join=") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	_, out, _ = onMember(t, c.First, "cluster", "token", "list")
	if !strings.Contains(out, "1 of 1     b at 10.0.0.2 ") || !strings.Contains(out, "1 of 1     c ") {
		t.Errorf("got\n%s", out)
	}
	_, out, _ = onMember(t, c.First, "cluster", "token", "list", "-o", "json")
	if !strings.Contains(out, `"node": "b"`) || !strings.Contains(out, `"address": "10.0.0.2"`) {
		t.Errorf("got\n%s", out)
	}
}

func TestClusterMembers(t *testing.T) {
	c := members.New(t)
	client := c.First.Client()
	if _, err := client.AddLearner(t.Context(), c.Node("b").PeerURL); err != nil {
		t.Fatal(err)
	}
	code, out, errs := onMember(t, c.First, "cluster", "members")
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if code != console.ExitOK || errs != "" || len(rows) != 3 || !strings.HasPrefix(rows[0], "ID ") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	first := regexp.MustCompile(`(?m)^[0-9a-f]+ +a +127\.0\.0\.1 +voter +yes +healthy +\d+ KiB +2\.0 GiB +0$`)
	second := regexp.MustCompile(`(?m)^[0-9a-f]+ +- +127\.0\.0\.1 +learner +no +it has not started yet +- +- +-$`)
	if !first.MatchString(out) || !second.MatchString(out) {
		t.Errorf("got\n%s", out)
	}
	code, out, _ = onMember(t, c.First, "cluster", "members", "-o", "json")
	var reports []clusters.MemberReport
	if err := json.Unmarshal([]byte(out), &reports); err != nil || code != console.ExitOK || len(reports) != 2 {
		t.Errorf("exit %d: %s", code, out)
	}
	var learner string
	for _, m := range reports {
		if m.Role == "learner" {
			learner = m.ID
		}
	}
	if code, out, errs := onMember(t, c.First, "cluster", "remove", "a"); code != console.ExitFailed || !strings.Contains(errs, "is the only voter") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := onMember(t, c.First, "cluster", "remove", "nowhere"); code != console.ExitFailed || !strings.Contains(errs, `node "a" (member `) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := onMember(t, c.First, "cluster", "remove", learner); code != console.ExitOK || !strings.HasPrefix(out, "member "+learner+" removed\n") || !strings.Contains(out, "replace the CA: sidecar cluster rotate-ca") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// While the CA is replaced, each member shows how far it is.
func TestClusterMembers_rotating(t *testing.T) {
	c := members.New(t)
	client, name := c.First.Client(), protocol.NodeID(c.First.Name)
	report := func() clusters.MemberReport {
		t.Helper()
		code, out, errs := onMember(t, c.First, "cluster", "members", "-o", "json")
		var all []clusters.MemberReport
		if err := json.Unmarshal([]byte(out), &all); err != nil || code != console.ExitOK || len(all) != 1 {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
		return all[0]
	}
	if got := report(); got.CARotation != nil {
		t.Errorf("no CA is replaced: got %+v", got.CARotation)
	}
	now := time.Now().UTC().Truncate(time.Second)
	put := record.Rotation{Phase: membership.RotationTrusting, Started: now, Since: now, Hash: pki.Hash{1}, Turn: name, Given: []protocol.NodeID{name}}
	if err := quorum.WriteRotation(t.Context(), client, 0, put); err != nil {
		t.Fatal(err)
	}
	want := clusters.MemberRotation{Phase: "Trusting", Since: now, Turn: true, Waits: true, TrustsOld: true}
	if got := report(); got.CARotation == nil || *got.CARotation != want {
		t.Errorf("got %+v, want %+v", got.CARotation, want)
	}
	done := record.RotationReport{Node: name, CA: pki.Hash{1}, TrustsNew: true, TrustsOld: true, HasKey: true}
	if err := quorum.WriteRotationReport(t.Context(), client, done); err != nil {
		t.Fatal(err)
	}
	want.Waits, want.TrustsNew, want.HasKey = false, true, true
	if got := report(); got.CARotation == nil || *got.CARotation != want {
		t.Errorf("it has done its part: got %+v, want %+v", got.CARotation, want)
	}
}

// TestCluster_external: with an etcd that runs elsewhere, the commands say so.
func TestCluster_external(t *testing.T) {
	server := etcdtest.New(t)
	c := command{T: t, endpoint: server.Endpoints()[0]}
	c.want(console.ExitFailed, "the sidecars do not run this etcd themselves", "cluster", "token", "create")
	c.want(console.ExitOK, "ID", "cluster", "token", "list")
	c.want(console.ExitUsage, `unknown command "rm"; see sidecar cluster token --help`, "cluster", "token", "rm")
	c.want(console.ExitUsage, `unknown command "join"`, "cluster", "join")
	c.want(console.ExitUsage, "set either this or --data-dir", "cluster", "members", "--etcd-servers=http://127.0.0.1:1", "--data-dir=/x")
}

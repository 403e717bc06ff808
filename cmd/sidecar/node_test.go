package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/fleet"
	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/protocol"
)

// command is one run of the program against an etcd.
type command struct {
	*testing.T
	endpoint string
	columns  string // of the screen; empty: any width
}

func (c command) run(args ...string) (code int, stdout, stderr string) {
	c.Helper()
	var out, errs bytes.Buffer
	p := program{Program: console.Program{
		Stdout: &out, Stderr: &errs, Now: time.Now,
		LookupEnv: func(name string) (string, bool) {
			return map[string]string{"LOCKSTEP_ETCD_SERVERS": c.endpoint, "COLUMNS": c.columns}[name], true
		},
	}}
	code = p.main(context.WithoutCancel(c.Context()), args)
	checkPrinted(c.T, args, out.String()+errs.String())
	return code, out.String(), errs.String()
}

// want runs the program and checks the exit code and a part of what it prints.
func (c command) want(code int, part string, args ...string) {
	c.Helper()
	got, stdout, stderr := c.run(args...)
	if got != code || !strings.Contains(stdout+stderr, part) {
		c.Errorf("sidecar %s: exit %d, want %d and %q in\n%s%s", strings.Join(args, " "), got, code, part, stdout, stderr)
	}
}

// A command makes few requests, so the servers that are off cost it no more than a moment.
func TestCommand_serversOff(t *testing.T) {
	server := etcdtest.New(t)
	var off [2]string
	for i := range off {
		addr, err := etcdtest.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		off[i] = "http://" + addr
	}
	c := command{T: t, endpoint: off[0] + "," + off[1] + "," + server.Endpoints()[0]}
	c.want(console.ExitOK, "ID", "node", "list")
	c.want(console.ExitFailed, "no record", "node", "set-roles", "x", "--add", protocol.RoleController)
	// That all refuse connections is known at once.
	command{T: t, endpoint: off[0] + "," + off[1]}.want(console.ExitFailed, "no answer from etcd at "+off[0]+", "+off[1]+": connection refused\n", "node", "list")
}

// On a node whose etcd has TLS, the default address without a certificate can never be used. The command says
// so, and what it needs, in place of a time that is over.
func TestCommand_etcdWithTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	without := strings.Replace(server.URL, "https:", "http:", 1)
	command{T: t, endpoint: without}.want(console.ExitFailed,
		"etcd cannot be used: "+without+": the server there speaks TLS; write https:// in --etcd-servers, and set --etcd-cafile, --etcd-certfile and --etcd-keyfile\n", "node", "list")
	command{T: t, endpoint: server.URL}.want(console.ExitFailed, "x509: certificate signed by unknown authority; check --etcd-cafile\n", "plan", "--bundle=builtin")
}

// A server that is too slow for the first question is asked again when the command has failed.
func TestCommand_slowEtcdWithTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener = &silentOnce{Listener: server.Listener}
	server.StartTLS()
	t.Cleanup(server.Close)
	command{T: t, endpoint: server.URL}.want(console.ExitFailed, "x509: certificate signed by unknown authority; check --etcd-cafile", "node", "list")
}

// silentOnce is a listener that never answers the first connection which sends something.
type silentOnce struct {
	net.Listener

	done atomic.Bool
}

func (l *silentOnce) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return silentConn{conn, &l.done}, err
}

type silentConn struct {
	net.Conn

	done *atomic.Bool
}

func (c silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.done.CompareAndSwap(false, true) {
		_, err = io.Copy(io.Discard, c.Conn) // until the client gives up
		return 0, cmp.Or(err, io.EOF)
	}
	return n, err
}

func TestNode(t *testing.T) {
	server := etcdtest.New(t)
	raw := server.Client(t)
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := raw.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("/lockstep/nodes/cp-1", fleet.Encode(protocol.Node{ID: "cp-1", Version: release(1, 1, 0), Roles: protocol.Roles{Controller: true}}))
	put("/lockstep/presence/cp-1", nil)
	put("/lockstep/nodes/cp-2", fleet.Encode(protocol.Node{ID: "cp-2", Version: release(1, 0, 0), Roles: protocol.Roles{Controller: true}}))
	put("/lockstep/nodes/cp-3", []byte("\xff"))
	c := command{T: t, endpoint: server.Endpoints()[0]}

	_, listed, _ := c.run("node", "list")
	want := `ID    RELEASE  ROLES                  ALIVE  GATE  ELECTION  PROBLEM
cp-1  1.1.0    kubernetes_controller  yes    -     -         -
cp-2  1.0.0    kubernetes_controller  no     -     -         -
cp-3  -        -                      no     -     -         it is not a node record; its sidecar writes it again if it is alive; if the node has stopped for good: sidecar node remove cp-3 --confirm-stopped --etcd-servers=` + c.endpoint + `
`
	if listed != want {
		t.Errorf("node list: got\n%s\nwant\n%s", listed, want)
	}
	c.want(console.ExitOK, `"problem": "it is not a node record; `, "node", "list", "-o", "json")
	c.want(console.ExitOK, "id: cp-2", "node", "list", "-o", "yaml")

	c.want(console.ExitUsage, "--confirm-stopped", "node", "remove", "cp-2")
	c.want(console.ExitFailed, "the node is alive", "node", "remove", "cp-1", "--confirm-stopped")
	c.want(console.ExitFailed, "the node has no record; these have one: cp-1, cp-2, cp-3", "node", "remove", "cp-9", "--confirm-stopped")
	c.want(console.ExitOK, "node cp-2 removed", "node", "remove", "cp-2", "--confirm-stopped")
	c.want(console.ExitOK, "node cp-3 removed", "node", "remove", "cp-3", "--confirm-stopped")
	if got := nodesLeft(t, raw); got != "/lockstep/nodes/cp-1" {
		t.Errorf("left: %s", got)
	}

	c.want(console.ExitUsage, `unknown role "boss"`, "node", "set-roles", "cp-1", "boss")
	c.want(console.ExitUsage, "expected a node ID and its roles", "node", "set-roles", "cp-1")
	c.want(console.ExitOK, "node cp-1 now has the roles: kubernetes_controller, consensus_member", "node", "set-roles", "cp-1", "consensus_member,kubernetes_controller")
	c.want(console.ExitOK, "node cp-1 now has the roles: none", "node", "set-roles", "cp-1", "none")
	c.want(console.ExitOK, "node cp-1 now has the roles: kubernetes_worker", "node", "set-roles", "cp-1", "--add", "kubernetes_worker")
	c.want(console.ExitOK, "node cp-1 already has the roles: kubernetes_worker", "node", "set-roles", "cp-1", "--add", "kubernetes_worker", "--remove", "kubernetes_controller")
	c.want(console.ExitOK, "warning: the role consensus_member starts no member of etcd here: the sidecars do not run this etcd themselves", "node", "set-roles", "cp-1", "--add=consensus_member", "--remove=kubernetes_worker")
	c.want(console.ExitOK, "node cp-1 now has the roles: none", "node", "set-roles", "cp-1", "--remove", "kubernetes_controller,consensus_member")
	c.want(console.ExitUsage, `--add: unknown role "boss"`, "node", "set-roles", "cp-1", "--add", "boss")
	c.want(console.ExitUsage, "--add and --remove both have kubernetes_worker", "node", "set-roles", "cp-1", "--add=kubernetes_worker", "--remove=kubernetes_worker")
	c.want(console.ExitUsage, "expected one node ID with --add or --remove", "node", "set-roles", "cp-1", "kubernetes_worker", "--add=kubernetes_worker")
	put("/lockstep/nodes/cp-4", fleet.Encode(protocol.Node{ID: "cp-4", Version: release(1, 0, 0), Roles: protocol.Roles{Controller: true}, Serves: true}))
	c.want(console.ExitFailed, "may still serve: make sure that it is off, with its kube-apiserver, then add --confirm-stopped", "node", "set-roles", "cp-4", "none")
	c.want(console.ExitOK, "node cp-4 now has the roles: none\nwarning: no node has the role kubernetes_controller now: "+
		"no gate is open, no node applies the bundle, and the services for that role stop; to give it back: sidecar node set-roles cp-4 --add kubernetes_controller --etcd-servers=",
		"node", "set-roles", "cp-4", "none", "--confirm-stopped")
	c.want(console.ExitUsage, "expected one ID", "node", "remove")
	c.want(console.ExitUsage, `unknown command "rm"`, "node", "rm")
	c.endpoint = "nowhere"
	c.want(console.ExitUsage, "(set by LOCKSTEP_ETCD_SERVERS)", "node", "list")
}

// nodesLeft returns the keys of the records.
func nodesLeft(t *testing.T, raw *clientv3.Client) string {
	t.Helper()
	resp, err := raw.Get(t.Context(), "/lockstep/nodes/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return strings.Join(keys, " ")
}

package main

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// wrongFlags lists, for each command that asks etcd, flags that people mistype there, and the part of
// the message that says so. A command without a line here accepts only the flags common to all of them.
var wrongFlags = map[string][][2]string{
	"bundle replace": {
		{"", "set --from"}, {"--from=base", "set --from"}, {"--from=base --to=Acme", "--to: "}, {"--from=base --to=base", "both base"},
		{"--cancel --to=acme", "--cancel needs"},
	},
	"cluster remove":       {{"", "expected one ID"}},
	"cluster rotate-ca":    {{"--detach", "--detach: needs --yes"}},
	"cluster snapshot":     {{"", "expected one FILE"}},
	"cluster token create": {{"--ttl=10ms", "from 1s"}, {"--uses=0", "--uses: must not be 0"}, {"--node=B_1", "is not a node ID"}, {"--address=10.0.0.2", "add --node"}},
	"cluster token revoke": {{"", "expected one ID"}, {"nope", "is not the ID of a token"}},
	"cordon": {
		{"", "expected one ID"}, {"B_1", "is not a node ID"}, {"cp-1 --for=-1s", "--for: -1s"}, {"cp-1 --for=1ms", "--for: 1ms"},
		{"cp-1 --timeout=-1s", "--timeout: -1s"}, {"cp-1 --message=" + strings.Repeat("x", 1000), "--message: has 1000 bytes"},
	},
	"node remove": {{"", "expected one ID"}, {"cp-1", "--confirm-stopped"}},
	"node set-roles": {
		{"", "expected a node ID"}, {"cp-1", "expected a node ID"}, {"B_1 none", "is not a node ID"}, {"cp-1 boss", `unknown role "boss"`},
		{"cp-1 --add=boss", "--add: "}, {"cp-1 --remove=boss", "--remove: "}, {"cp-1 none --add=consensus_member", "expected one node ID"},
	},
	"plan":           {{"", "--bundle: required"}},
	"rollback begin": {{"", "--to: required"}, {"--to=newest", "--to: "}, {"--to=1.0.0 --for=1s", "--for: must be between"}},
	"store adopt":    {{"", "set either --kubeconfig"}, {"--id=x --kubeconfig=y", "set either --kubeconfig"}, {"--id=mine", "--id: "}},
	"turn":           {{"", "the command to run is missing"}, {"true", "write -- before"}, {"--wait=-1s -- true", "--wait: "}, {"--for=1ms -- true", "--for: "}},
	"turn begin":     {{"x", "unexpected argument"}, {"--drain=-1s", "--drain: "}},
	"turn end":       {{"B_1", "is not a node ID"}, {"--force", "--force: name the node"}, {"--wait=-1s", "--wait: "}},
	"turn set":       {{"--turns=0", "--turns: "}, {"--turns=101", "--turns: "}},
	"uncordon":       {{"", "expected one ID"}, {"B_1", "is not a node ID"}, {"cp-1 --timeout=-1s", "--timeout: -1s"}},
}

// A command names a wrong flag before it asks etcd: where etcd does not answer, the command would end
// late, with another exit code, and a sentence about etcd.
func TestWrongFlags(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	accepts := make(chan struct{})
	go func() {
		defer close(accepts)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			_ = conn.Close() // like an etcd that is about to start
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-accepts })
	c := command{T: t, endpoint: "http://" + listener.Addr().String()}

	left := len(wrongFlags)
	everyCommand(program{}.root(), func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("etcd-servers") == nil || cmd.Name() == "run" {
			return
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "sidecar ")
		mistakes := append([][2]string{{"--etcd-prefix=x", "--etcd-prefix: "}}, wrongFlags[path]...)
		if cmd.Flags().Lookup("output") != nil && path != "support" { // there, it is a file
			mistakes = append(mistakes, [2]string{"--output=xml", "must be one of"})
		}
		if len(wrongFlags[path]) > 0 {
			left--
		}
		for _, m := range mistakes {
			args := append(strings.Fields(path), strings.Fields(m[0])...)
			if m[0] == "--etcd-prefix=x" && len(wrongFlags[path]) > 0 && wrongFlags[path][0][0] == "" {
				continue // the argument that is missing is named first
			}
			c.want(console.ExitUsage, m[1], args...)
			select {
			case <-asked:
				t.Errorf("sidecar %s: etcd was asked", strings.Join(args, " "))
			default:
			}
		}
	})
	if left != 0 {
		t.Errorf("%d of the commands above ask no etcd", left)
	}
}

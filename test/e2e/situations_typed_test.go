package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// toldLater: who asks why a node failed clients at this time learns the cause.
func (b *broken) toldLater(node string, causes ...string) {
	b.Helper()
	args := []string{"explain", "--node=" + node, "--at=" + time.Now().UTC().Format(time.RFC3339), "--etcd-servers=" + b.c.Endpoints()[0]}
	cluster.Await(b.T, "the causes of the situation "+b.name, func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar"), args...).CombinedOutput()
		for _, cause := range causes {
			if err == nil && !regexp.MustCompile("(?m)^  possible cause .*"+regexp.QuoteMeta(cause)).Match(out) {
				err = fmt.Errorf("no possible cause is %q", cause)
			}
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		b.Logf("$ sidecar %q\n%s", args, out)
		return nil
	})
}

// explains waits until `sidecar explain` of a node says why it does not serve now.
func (b *broken) explains(node, why string) {
	b.Helper()
	cluster.Await(b.T, "the explanation of "+node, func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, filepath.Join(cluster.Assets(b.T, "sidecar"), "sidecar"), "explain", "--node="+node,
			"--at="+time.Now().UTC().Format(time.RFC3339), "--etcd-servers="+b.c.Endpoints()[0]).CombinedOutput()
		if verdict, _, _ := strings.Cut(string(out), "\n"); err == nil && !strings.Contains(verdict, why) {
			err = fmt.Errorf("it does not say %q", why)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// types finds a command in the table of a node, by its beginning, and gives it to a shell,
// as a person does who pastes it.
func (b *broken) types(node, begin string) {
	b.Helper()
	command := ""
	cluster.Await(b.T, begin+" in the table of "+node, func(ctx context.Context) error {
		table, err := b.table(ctx, node)
		if err != nil {
			return fmt.Errorf("%w: %s", err, table)
		}
		if command = regexp.MustCompile(regexp.QuoteMeta(begin) + `[^;,)\n]*`).FindString(table); command == "" {
			return fmt.Errorf("no %q in\n%s", begin, table)
		}
		return nil
	})
	b.shell(node, command)
}

// shell gives a printed command to a shell.
func (b *broken) shell(node, command string) {
	b.Helper()
	if b.typed != nil {
		b.typed[command] = true
	}
	programs := cluster.Assets(b.T, "sidecar")
	cmd := exec.CommandContext(b.Context(), "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "KUBECONFIG="+b.api.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s prints %q; typed: %v\n%s", node, command, err, out)
	}
	b.Logf("$ %s\n%s", command, strings.TrimSpace(string(out)))
}

// printedCommand is a command in a table. "sidecar status of that node" is none.
var printedCommand = regexp.MustCompile(`(sidecar (bundle|cluster|cordon|explain|history|kubeadm|node|override|plan|rollback|service|store|support|turn|uncordon|wait-ready) |etcdctl |kubectl |systemctl )[^;,)\n]*`)

// prints remembers the commands in the table of a node.
func (b *broken) prints(node, table string) {
	if b.printed == nil {
		return // not a situation: what is printed there is typed elsewhere
	}
	for _, command := range printedCommand.FindAllString(table, -1) {
		if command = strings.TrimSpace(command); b.printed[command] == "" {
			b.printed[command] = node
		}
	}
}

// typesRest types each command that a table showed and the situation did not type: people may
// type any of them, and late. With -situations, all commands of all situations were typed.
func (b *broken) typesRest() {
	b.Helper()
	for command, node := range b.printed {
		if !b.typed[command] {
			b.shell(node, command)
		}
	}
}

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

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
	programs := cluster.Assets(b.T, "sidecar")
	cmd := exec.CommandContext(b.Context(), "/bin/sh", "-c", command)
	cmd.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s prints %q; typed: %v\n%s", node, command, err, out)
	}
	b.Logf("$ %s\n%s", command, strings.TrimSpace(string(out)))
}

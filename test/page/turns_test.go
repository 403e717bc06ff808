package page_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/lockstep-dev/lockstep/test/cluster"
	"github.com/lockstep-dev/lockstep/test/page"
)

const facts = `[...document.querySelectorAll("#facts dt")].map((x) => x.textContent + ": " + x.nextElementSibling.textContent).join("\n")`

// turn types sidecar turn on a node.
func (f *fleet) turn(node string, args ...string) (end func()) {
	f.Helper()
	args = append([]string{"turn", "--etcd-servers=" + strings.Join(f.c.Endpoints(), ","), "--server=" + f.sidecars[node].URL()}, args...)
	cmd := exec.CommandContext(f.Context(), f.c.SidecarBinary(), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cluster.StartCommand(cmd); err != nil {
		f.Fatal(err)
	}
	return func() {
		f.Helper()
		if err := cmd.Wait(); err != nil {
			f.Fatalf("sidecar %s: %v: %s", strings.Join(args, " "), err, &out)
		}
	}
}

// showsTurns lets one node have a turn, and another one wait: the page of the third says which, since when, of whom and
// for what, and why the second one waits.
func showsTurns(f *fleet, b *page.Browser) {
	f.Helper()
	awaitFact := func(pattern string) {
		f.Helper()
		cluster.Await(f.T, "the page to show "+pattern, func(ctx context.Context) error {
			var got string
			if err := b.Eval(ctx, facts, &got); err != nil {
				return err
			}
			if !regexp.MustCompile("(?m)^" + pattern + "$").MatchString(got) {
				return fmt.Errorf("got %s", got)
			}
			return nil
		})
	}
	f.turn("cp-1", "begin", "--drain=1ms", "--message=new disk")()
	waits := f.turn("cp-2", "--drain=1ms", "--message=new flags", "--", "true")
	awaitFact(`Turn: cp-1 has it since \d+ s, by \S+@\S+: new disk`)
	awaitFact(`Waits for a turn: cp-2 since \d+ s, by \S+@\S+: true \(new flags\); node "cp-1" has the turn`)
	everyView(f.T, b, "with a turn")
	f.turn("cp-2", "end", "cp-1")()
	waits()
}

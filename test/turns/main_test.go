// Package turns_test runs three sidecars as processes, and work on their nodes that begins
// everywhere at the same time: it holds the commands of turns, agents that reboot machines, and
// services whose files change to docs/protocol-nodes.md#turns. The kube-apiservers only answer
// /readyz, so that a test takes seconds.
package turns_test

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// workWord is the first argument of the program that is run in a turn.
const workWord = "work"

func TestMain(m *testing.M) {
	if code, is := machineProgram(os.Args); is {
		os.Exit(code)
	}
	if len(os.Args) > 2 && os.Args[1] == workWord {
		if err := work(context.Background(), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(workFailed)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == serviceWord {
		fmt.Fprintln(os.Stderr, serveAs(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

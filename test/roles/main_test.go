// Package roles_test holds sidecars that run services (docs/roles.md), as processes, to
// the order of docs/protocol.md#services.
package roles_test

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain is also the program of the services.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serviceWord {
		if err := serve(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

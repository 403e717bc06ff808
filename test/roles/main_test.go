// Package roles_test holds sidecars that run services (docs/roles.md), as processes, to
// the order of docs/protocol-nodes.md#services.
package roles_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
)

// listenWord is the first argument of a program that only listens.
const listenWord = "listen"

// TestMain is also the program of the services.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serviceWord {
		if err := serve(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == listenWord {
		fmt.Fprintln(os.Stderr, listen(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// listen accepts connections until it is killed.
func listen(address string) error {
	l, err := net.Listen("tcp", address)
	for err == nil {
		var conn net.Conn
		if conn, err = l.Accept(); err == nil {
			err = conn.Close()
		}
	}
	return err
}

// Command embed is an example: an agent of a Kubernetes distribution that embeds a
// Lockstep sidecar. It is a module of its own: it can use only the packages that every
// other program can. The sidecar's HTTP API is below /lockstep/ of the agent's own
// server.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockstep-dev/lockstep"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "127.0.0.1:9345", lockstep.Options{Kubeconfig: os.Getenv("KUBECONFIG"), Bundle: lockstep.BuiltinBundle}, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, opts lockstep.Options, out io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	sidecar, err := lockstep.New(opts, slog.Default())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/lockstep/", http.StripPrefix("/lockstep", sidecar.Handler()))
	server := &http.Server{Handler: mux}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // until Close
	go func() {
		if sidecar.WaitReady(ctx) == nil {
			fmt.Fprintf(out, "%s: this node's kube-apiserver may serve\n", listener.Addr())
		}
	}()
	return sidecar.Run(ctx)
}

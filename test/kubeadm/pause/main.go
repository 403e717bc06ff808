// Command pause keeps the namespaces of a pod: it waits until it is stopped. With arguments
// it ends at once, as a job of kubeadm upgrade wants it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		return
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}

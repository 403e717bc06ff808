// Command flux applies manifests by Flux's library, without the stages that its
// kustomize-controller makes, which wait for what they bring. It is a peer of the
// benchmarks, and prints as JSON how many objects were written, and
// how long that took without its start.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	manifests := flag.String("f", "", "file of manifests")
	concurrency := flag.Int("concurrency", 4, "the controller's default")
	flag.Parse()
	written, took, err := apply(context.Background(), *kubeconfig, *manifests, *concurrency) //nolint:forbidigo // main has no other
	if err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
	fmt.Printf("{\"Applied\": %d, \"Took\": %d}\n", written, took)
}

func apply(ctx context.Context, kubeconfig, manifests string, concurrency int) (written int, took time.Duration, err error) {
	log.SetLogger(logr.Discard())
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, 0, err
	}
	cfg.QPS = -1 // the others have no limit either
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return 0, 0, err
	}
	file, err := os.Open(manifests)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	objects, err := utils.ReadObjects(file)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	m := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "flux-bench", Group: "flux.bench.test"})
	m.SetConcurrency(concurrency)
	m.SetOwnerLabels(objects, "bench", "default")
	changes, err := m.ApplyAll(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		return 0, 0, err
	}
	for _, e := range changes.Entries {
		if e.Action != ssa.UnchangedAction {
			written++
		}
	}
	return written, time.Since(begin), nil
}

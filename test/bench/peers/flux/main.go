// Command flux applies manifests by Flux's library, as its kustomize-controller
// does: staged, with the drift check before each apply. It is a peer of the
// benchmarks, and prints how many objects were written.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	manifests := flag.String("f", "", "file of manifests")
	concurrency := flag.Int("concurrency", 4, "the controller's default")
	flag.Parse()
	written, err := apply(context.Background(), *kubeconfig, *manifests, *concurrency) //nolint:forbidigo // main has no other
	if err != nil {
		fmt.Fprintln(os.Stderr, "flux:", err)
		os.Exit(1)
	}
	fmt.Println(written)
}

func apply(ctx context.Context, kubeconfig, manifests string, concurrency int) (written int, err error) {
	log.SetLogger(log.Log)
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err
	}
	cfg.QPS = -1 // the others have no limit either
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		return 0, err
	}
	file, err := os.Open(manifests)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	objects, err := utils.ReadObjects(file)
	if err != nil {
		return 0, err
	}
	m := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "flux-bench", Group: "flux.bench.test"})
	m.SetConcurrency(concurrency)
	m.SetOwnerLabels(objects, "bench", "default")
	changes, err := m.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		return 0, err
	}
	for _, e := range changes.Entries {
		if e.Action != ssa.UnchangedAction {
			written++
		}
	}
	return written, nil
}

package service

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// hide leaves the addresses as they are, or writes them where no client reads them: a label keeps kube-proxy from
// reading the slice, and a slice of names, which a finalizer holds, takes its place.
func hide(r *rig) {
	all := r.api.Resource(sliceKind).Namespace("default")
	_, err := all.Patch(r.Context(), "kubernetes", types.MergePatchType, []byte(`{"metadata":{"labels":{"service.kubernetes.io/headless":""}}}`), metav1.PatchOptions{FieldManager: "kubectl"})
	r.must(err)
	cluster.Await(r.T, "the label to be removed", func(ctx context.Context) error {
		slice, err := r.object(ctx, sliceKind)
		if err == nil && len(slice.GetLabels()) != 1 {
			err = fmt.Errorf("it has the labels %v", slice.GetLabels())
		}
		return err
	})
	slice, err := r.object(r.Context(), sliceKind)
	r.must(err)
	names := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN",
		"endpoints": []any{map[string]any{"addresses": []any{"evil.example"}}},
	}}
	names.SetName("kubernetes")
	names.SetLabels(slice.GetLabels())
	names.SetFinalizers([]string{"example.com/held"})
	cluster.Await(r.T, "the slice of names to be created", func(ctx context.Context) error { // a sidecar may be faster
		if err := all.Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err := all.Create(ctx, names, metav1.CreateOptions{FieldManager: "kubectl"})
		return err
	})
	cluster.Await(r.T, "a slice of addresses", func(ctx context.Context) error {
		slice, err := r.object(ctx, sliceKind)
		if err == nil && (slice.Object["addressType"] != "IPv4" || len(slice.GetFinalizers()) > 0) {
			err = fmt.Errorf("it is %v", slice.Object)
		}
		return err
	})
}

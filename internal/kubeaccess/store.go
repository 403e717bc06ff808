package kubeaccess

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// StoreOfObjects reads the store ID from the objects' parent
// (docs/protocol-objects.md#stores). file is a kubeconfig. The ID is empty if the parent does not exist, or
// carries none.
func StoreOfObjects(ctx context.Context, file string) (string, error) {
	access, err := New(file)
	if err != nil {
		return "", err
	}
	text, err := access.Get(ctx, "/api/v1/namespaces/"+reconcile.ParentNamespace+"/configmaps/"+reconcile.ParentName, nil)
	if kube.StatusCode(err) == http.StatusNotFound {
		return "", nil
	}
	var parent struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err == nil {
		err = json.Unmarshal(text, &parent)
	}
	if err != nil {
		return "", fmt.Errorf("read the store ID of the objects: %w", err)
	}
	return parent.Metadata.Annotations[bundle.AnnotationStore], nil
}

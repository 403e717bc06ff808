package kubeaccess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/reconcile"
	"github.com/lockstep-dev/lockstep/reconcile/bundle"
)

// storeTimeout bounds the request of StoreOfObjects, and maxParent its answer.
const (
	storeTimeout = 10 * time.Second
	maxParent    = 4 << 20
)

// StoreOfObjects reads the store ID from the objects' parent
// (docs/protocol-objects.md#stores). file is a kubeconfig. The ID is empty if the parent does not exist, or
// carries none.
func StoreOfObjects(ctx context.Context, file string) (string, error) {
	cfg, err := kubeconfig.Read(file)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	id, err := storeOfObjects(ctx, cfg)
	if err != nil {
		return "", fmt.Errorf("read the store ID of the objects: %w", err)
	}
	return id, nil
}

func storeOfObjects(ctx context.Context, cfg *rest.Config) (id string, err error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return "", err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return "", err
	}
	url := base.JoinPath("api/v1/namespaces", reconcile.ParentNamespace, "configmaps", reconcile.ParentName).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", nil
	default:
		return "", fmt.Errorf("%s answered %s", url, resp.Status)
	}
	var parent struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxParent)).Decode(&parent); err != nil {
		return "", err
	}
	return parent.Metadata.Annotations[bundle.AnnotationStore], nil
}

package app

import (
	"context"
	"net/http"
	"time"

	"github.com/lockstep-dev/lockstep/httpapi/reviews"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
)

// Reviews configures the kube-apiservers that decide who may read the HTTP API. Without Authorization,
// none does.
type Reviews struct {
	Authentication, Authorization   string // kubeconfigs; a single one is Authorization
	AlwaysAllowPaths                []string
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
}

// newReviewer returns the reviewer of clients; nil: none is configured.
func (a *App) newReviewer() (*reviews.Reviewer, error) {
	want := a.cfg.Reviews
	if want.Authorization == "" {
		return nil, nil
	}
	clients := map[string]reviews.Post{"": nil}
	for _, path := range []string{want.Authentication, want.Authorization} {
		if _, known := clients[path]; known {
			continue
		}
		file, err := a.kubeconfigAt(path)
		if err != nil {
			return nil, err
		}
		client := file.Transport().Client("lockstep-reviews/" + buildinfo.Get().Version)
		clients[path] = func(ctx context.Context, path string, body []byte) ([]byte, error) {
			return client.Do(ctx, kube.Request{Verb: http.MethodPost, Path: path, ContentType: "application/json", Body: body})
		}
	}
	return reviews.New(reviews.Config{
		Authentication: clients[want.Authentication], Authorization: clients[want.Authorization],
		TokenTTL: want.TokenTTL, AllowedTTL: want.AllowedTTL, DeniedTTL: want.DeniedTTL, Registerer: a.registry,
	}), nil
}

// kubeconfigAt returns the kubeconfig of a file: this node's own, or another one, which is also
// read again after changes.
func (a *App) kubeconfigAt(path string) (*kubeconfig.File, error) {
	if path == a.cfg.Kubeconfig {
		return a.kubeconfig, nil
	}
	file, err := kubeconfig.Open(path, kubeconfig.Anywhere, a.log.With("worker", "review-kubeconfig"))
	if err != nil {
		return nil, err
	}
	a.keep("review-kubeconfig", file.Run)
	return file, nil
}

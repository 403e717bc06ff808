package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

const (
	// versionInterval is the pause between two reads of /version. It bounds how late this sidecar
	// notices a kube-apiserver that another program replaced.
	versionInterval = time.Minute
	// differsInterval is the pause while the kube-apiserver versions of nodes with this release
	// differ, or this node's version does not fit the bundle: until this sidecar notices a change,
	// that holds the next upgrade or keeps the gate closed.
	differsInterval = 5 * time.Second
	versionTimeout  = 5 * time.Second
	// maxVersionAnswer limits how much of the answer is read, in bytes.
	maxVersionAnswer = 64 << 10
)

// pollVersion follows the version of this node's kube-apiserver until ctx ends. It asks again when
// the state of the services, the kube-apiserver or the kubeconfig changes. While there is no
// answer, the last version stays.
func (a *App) pollVersion(ctx context.Context) error {
	if a.cfg.Reconciler != nil { // there is no API
		<-ctx.Done()
		return ctx.Err()
	}
	pauses := backoff.Backoff{First: time.Second, Max: versionInterval}
	for {
		changes := []<-chan struct{}{changed(a.apiserver.Load()), changed(a.roles.State().Load()), changed(a.kubeconfig.config.Load())}
		version, err := readVersion(ctx, a.kubeconfig.transport)
		pause := pauses.Next()
		if err == nil {
			pauses.Reset()
			pause = versionInterval
			if a.hasOtherAPIServer() || a.otherAPIServer.Get() != "" {
				pause = differsInterval
			}
			if was := a.version.Get(); was != version {
				a.version.Set(version)
				a.log.Info("kube-apiserver answered", "version", version, "was", was)
			}
		}
		limited, cancel := context.WithTimeout(ctx, pause)
		event.Wait(limited, changes...)
		cancel()
		// A starting service changes its state several times in a second.
		if !backoff.Sleep(ctx, warningPause) {
			return ctx.Err()
		}
	}
}

// apiserverProblem returns why this node's kube-apiserver does not fit the bundle; empty: it fits,
// or there is no API.
func (a *App) apiserverProblem() string {
	if a.cfg.Reconciler != nil {
		return ""
	}
	return protocol.APIServerProblem(a.local.Get().APIServer, a.version.Get())
}

// keepOtherAPIServer lets this node register once its kube-apiserver fits the bundle, and never
// withdraws that while the sidecar runs: a serving node continues, with a warning, if the
// kube-apiserver changes (docs/protocol.md#apiserver-version). It returns when ctx ends.
func (a *App) keepOtherAPIServer(ctx context.Context) error {
	for {
		_, localChanged := a.local.Load()
		_, versionChanged := a.version.Load()
		problem := a.apiserverProblem()
		if problem != a.otherAPIServer.Get() {
			a.otherAPIServer.Set(problem)
		}
		if problem == "" {
			<-ctx.Done()
			return ctx.Err()
		}
		if !event.Wait(ctx, localChanged, versionChanged) {
			return ctx.Err()
		}
	}
}

// hasOtherAPIServer reports whether nodes with this node's release run different versions of
// kube-apiserver.
func (a *App) hasOtherAPIServer() bool {
	release := a.local.Get().Version.Release
	for _, m := range protocol.MismatchedAPIServers(a.follower.Fleet().Get()) {
		if m.Release == release {
			return true
		}
	}
	return false
}

// readVersion reads /version, which every user of kube-apiserver may read.
func readVersion(ctx context.Context, api *kube.Transport) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.Base().JoinPath("version").String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: api}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxVersionAnswer))
	if err != nil {
		return "", err
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal(body, &version); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("/version: %s", resp.Status)
	}
	return version.GitVersion, nil
}

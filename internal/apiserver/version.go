package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/buildinfo"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
	"github.com/lockstep-dev/lockstep/protocol/upgrade"
)

const (
	// versionInterval is the pause between two reads of /version. It bounds how late this sidecar
	// notices a kube-apiserver that another program replaced.
	versionInterval = time.Minute
	// differsInterval is the pause while the kube-apiserver versions of nodes with this release
	// differ, or this node's version does not fit the bundle: until this sidecar notices a change,
	// that holds the next upgrade or keeps the gate closed.
	differsInterval = 5 * time.Second
	// restPause is the shortest time between two reads.
	restPause = 500 * time.Millisecond
)

// RunVersion follows the version of this node's kube-apiserver until ctx ends. It asks again when
// the state of the services, the kube-apiserver or the kubeconfig changes. While there is no
// answer, the last version stays.
func (f *Follower) RunVersion(ctx context.Context) error {
	if f.cfg.None { // there is no API
		<-ctx.Done()
		return ctx.Err()
	}
	pauses := backoff.Backoff{First: time.Second, Max: versionInterval}
	for {
		changes := append(event.Changes(f.state, f.cfg.Kubeconfig.Config()), f.cfg.ServicesChanged())
		version, err := readVersion(ctx, f.cfg.Kubeconfig.Transport())
		pause := pauses.Next()
		if err == nil {
			pauses.Reset()
			pause = versionInterval
			if f.hasOther() || f.other.Get() != "" {
				pause = differsInterval
			}
			if was := f.version.Get(); was != version {
				f.version.Set(version)
				f.cfg.Log.Info("kube-apiserver answered", "version", version, "was", was)
			}
		}
		event.WaitFor(ctx, pause, changes...)
		// A starting service changes its state several times in a second.
		if !backoff.Sleep(ctx, restPause) {
			return ctx.Err()
		}
	}
}

// Problem returns why this node's kube-apiserver does not fit the bundle; empty: it fits,
// or there is no API.
func (f *Follower) Problem() string {
	if f.cfg.None {
		return ""
	}
	return protocol.APIServerProblem(f.cfg.Local.Get().APIServer, f.version.Get())
}

// RunOther lets this node register once its kube-apiserver fits the bundle, and never
// withdraws that while the sidecar runs: a serving node continues, with a warning, if the
// kube-apiserver changes (docs/protocol-nodes.md#apiserver-version). It returns when ctx ends.
func (f *Follower) RunOther(ctx context.Context) error {
	for {
		changes := event.Changes(f.cfg.Local, f.version)
		problem := f.Problem()
		event.SetIfNew(f.other, problem)
		if problem == "" {
			<-ctx.Done()
			return ctx.Err()
		}
		if !event.Wait(ctx, changes...) {
			return ctx.Err()
		}
	}
}

// hasOther reports whether nodes with this node's release run different versions of
// kube-apiserver.
func (f *Follower) hasOther() bool {
	release := f.cfg.Local.Get().Version.Release
	for _, m := range upgrade.MismatchedAPIServers(f.cfg.Fleet.Get()) {
		if m.Release == release {
			return true
		}
	}
	return false
}

// readVersion reads /version, which every user of kube-apiserver may read.
func readVersion(ctx context.Context, api *kube.Transport) (string, error) {
	body, err := api.Client(buildinfo.UserAgent()).Do(ctx, kube.Request{Verb: http.MethodGet, Path: "/version"})
	if err != nil {
		return "", err
	}
	var version struct{ GitVersion string }
	err = json.Unmarshal(body, &version)
	return version.GitVersion, err
}

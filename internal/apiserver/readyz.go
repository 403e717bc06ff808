package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/internal/checks"
)

const (
	pollInterval = time.Second
	pollTimeout  = time.Second
	// maxAnswer bounds the excerpt of an answer that names no check, in bytes.
	maxAnswer = 512
)

// RunReadyz requests /readyz of this node's kube-apiserver and publishes the result, for
// --apiserver-readyz, until ctx ends. Probes of the sidecar do not wait for it.
//
// The work of a turn may restart the kube-apiserver, and return while the answer of the old one is
// less than a second old. So after a turn, the first answer that counts is one to a request that
// began after the turn's cordon ended (docs/protocol-nodes.md#turns).
func (f *Follower) RunReadyz(ctx context.Context) error {
	api := f.cfg.Kubeconfig.Transport()
	client := &http.Client{Transport: api, Timeout: pollTimeout}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		// In this order: a turn that begins between the two reads counts as under way.
		shown, turn := f.answers.Get().shown, f.cordonedForTurn()
		problem := ask(ctx, client, api.Base().JoinPath("readyz").String())
		if ctx.Err() == nil {
			f.show(problem, time.Now())
			if !turn {
				event.Update(f.answers, func(t turnAnswers) turnAnswers { t.answered = shown; return t })
			}
		}
		for again := false; !again; {
			_, fleetChanged := f.cfg.Fleet.Load()
			if turn && !f.cordonedForTurn() {
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
				again = true
			case <-fleetChanged:
			}
		}
	}
}

// ask returns why the kube-apiserver is not ready; empty: it is ready.
func ask(ctx context.Context, client *http.Client, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, checks.MaxBody))
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode == http.StatusOK:
		return ""
	}
	answer := cmp.Or(checks.Message(string(body)), strings.TrimSpace(string(body[:min(len(body), maxAnswer)])))
	return cmp.Or(checks.Failed(string(body)), fmt.Sprintf("%s: %s", resp.Status, answer))
}

package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/kube"
	"github.com/lockstep-dev/lockstep/protocol"
)

// This file deletes an ephemeral record when its sidecar stops (docs/protocol.md#ephemeral).

const (
	// leavePause is the time between two checks whether the kube-apiserver has stopped.
	leavePause = 200 * time.Millisecond
	// leaveTimeout bounds the deletion of the record.
	leaveTimeout = 5 * time.Second
)

// awaitLeaving waits until protocol.Leave decides whether the record is deleted or stays, and
// returns the facts for that. By now the gate is closed and the node does not lead.
func (a *App) awaitLeaving(ctx context.Context, stopped time.Time) protocol.LeaveFacts {
	api := refusals{client: http.Client{Transport: a.kubeconfig.transport, Timeout: apiPollTimeout}, api: a.kubeconfig.transport}
	defer a.kubeconfig.transport.CloseIdleConnections()
	failed := ctx.Err() == nil
	clean := context.WithoutCancel(ctx) // protocol.Leave bounds the wait
	for said := false; ; said = true {
		facts := a.leaveFacts(time.Since(stopped), api.lasted())
		facts.Failed = failed
		leaving, why := protocol.Leave(facts)
		if leaving != protocol.WaitToLeave {
			return facts
		}
		if !said {
			a.log.Info("record not deleted yet", "reason", why)
		}
		api.ask(clean)
		backoff.Sleep(clean, leavePause)
	}
}

func (a *App) leaveFacts(waited, silent time.Duration) protocol.LeaveFacts {
	local := a.local.Get()
	facts := protocol.LeaveFacts{
		Ephemeral: local.Ephemeral, Roles: protocol.Roles{Controller: true},
		Present:    a.presence.Lease().Get() != 0,
		GateClosed: !a.Ready(), Leads: a.election.State().Get().Election == protocol.Leading,
		Waited: waited, ShutdownDelay: a.cfg.ShutdownDelay, Refused: silent,
	}
	if own, found := a.follower.Fleet().Get().Record(local.ID); found && own.Problem == "" {
		facts.Roles = own.Node.Roles
	}
	return facts
}

// leave deletes the record if the facts allow it. By now this sidecar writes it no more.
func (a *App) leave(ctx context.Context, facts protocol.LeaveFacts) {
	leaving, why := protocol.Leave(facts)
	var err error
	if leaving == protocol.DeleteRecord {
		a.presence.Rest()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		leaving, why, err = a.registrar.Leave(limited, facts)
	}
	switch {
	case leaving == protocol.DeleteRecord:
		a.log.Info("record deleted")
	case facts.Ephemeral:
		a.log.Warn("record not deleted, leaders wait until it expires", "reason", why, "err", err, "expireAfter", a.cfg.ExpireDeadNodes)
	}
}

// refusals measures for how long a kube-apiserver refuses connections.
type refusals struct {
	client http.Client
	api    *kube.Transport
	// first is when the first refusal arrived, last when the newest refused request was sent; zero:
	// the newest request was not refused.
	first, last time.Time
}

// ask tries to connect.
func (r *refusals) ask(ctx context.Context) {
	sent := time.Now()
	switch gone := refuses(ctx, &r.client, r.api.Base().JoinPath("readyz").String()); {
	case !gone:
		r.first, r.last = time.Time{}, time.Time{}
	case r.first.IsZero():
		r.first, r.last = time.Now(), sent
	default:
		r.last = sent
	}
}

// lasted returns for how long every connection was refused; 0: the newest one was not.
func (r *refusals) lasted() time.Duration { return max(0, r.last.Sub(r.first)) }

// refuses reports whether no program accepts connections at a URL. After any answer, or none in
// time, a program may still listen there.
func refuses(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close() // its content does not matter
		return false
	}
	connect, failed := errors.AsType[*net.OpError](err)
	return failed && connect.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED) // not from a proxy
}

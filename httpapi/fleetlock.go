package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
)

// FleetLock takes and ends the turn of this node for an agent that reboots the machine
// (docs/operations.md#fleetlock). Each method returns nil if the agent has what it asked for, a
// *LockRefused if it has not, and another error if that is not known.
type FleetLock interface {
	// PreReboot returns nil when the node is out of service, for the agent with this ID.
	PreReboot(ctx context.Context, agent string) error
	// SteadyState returns nil when the agent has no turn that is not done.
	SteadyState(ctx context.Context, agent string) error
}

// LockRefused is why an agent may not reboot now.
type LockRefused struct{ Reason string }

func (e *LockRefused) Error() string { return e.Reason }

// The paths of the protocol.
const (
	preRebootPath   = "/v1/pre-reboot"
	steadyStatePath = "/v1/steady-state"
)

// The protocol's header, and what a client must send with it.
const lockHeader = "fleet-lock-protocol"

var validGroup = regexp.MustCompile(`^[a-zA-Z0-9.-]+$`)

const (
	maxLockBody = 4 << 10
	maxAgentID  = 128
)

// lockRequest is the body of a request.
type lockRequest struct {
	Client struct {
		ID    string `json:"id"`
		Group string `json:"group"`
	} `json:"client_params"`
}

// fleetLock answers requests. Only an agent on this machine may send one: the turn is that of
// this node. An agent can show no certificate and no token, so none is asked for.
func (s *Server) fleetLock(do func(ctx context.Context, agent string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r) || !s.knowsHost(r) {
			s.lockProblem(w, http.StatusForbidden, "forbidden", "only an agent on this machine may ask: use http://127.0.0.1 and the port of this sidecar")
			return
		}
		agent, why := agentOf(r)
		if why != "" {
			s.lockProblem(w, http.StatusBadRequest, "bad_request", why)
			return
		}
		err := do(r.Context(), agent)
		if refused, ok := errors.AsType[*LockRefused](err); ok {
			s.lockProblem(w, http.StatusConflict, "failed_lock", refused.Reason)
			return
		}
		if err != nil {
			s.lockProblem(w, http.StatusServiceUnavailable, "unavailable", oneLine(err.Error()))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		s.reply(w, http.StatusOK, "{}\n")
	}
}

// agentOf returns the agent of a request, or what is wrong with it.
func agentOf(r *http.Request) (agent, why string) {
	if r.Header.Get(lockHeader) != "true" {
		return "", "the header " + lockHeader + " must be true"
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxLockBody))
	var request lockRequest
	switch {
	case err != nil:
		return "", "the body cannot be read"
	case json.Unmarshal(body, &request) != nil:
		return "", "the body must be JSON of the form {\"client_params\": {\"id\": \"...\", \"group\": \"...\"}}"
	case request.Client.ID == "" || len(request.Client.ID) > maxAgentID:
		return "", "client_params.id must have 1 to 128 bytes"
	case !validGroup.MatchString(request.Client.Group):
		return "", "client_params.group must have letters, digits, dots and hyphens only, and not be empty"
	}
	return request.Client.ID, ""
}

// lockProblem answers an agent without success, as the protocol has it: with a kind, and a value for people.
func (s *Server) lockProblem(w http.ResponseWriter, code int, kind, value string) {
	w.Header().Set("Content-Type", "application/json")
	s.reply(w, code, string(marshal(map[string]string{"kind": kind, "value": value}))+"\n")
}

// Package apiserver follows this node's kube-apiserver: whether it is ready, for this node and for others
// (docs/protocol-nodes.md#serves), its version (docs/protocol-nodes.md#apiserver-version), and why it cannot be used.
// It decides nothing: package protocol does. RunReadyz, RunVersion and RunOther block until their
// context ends, and no goroutine outlives them.
package apiserver

import (
	"log/slog"
	"time"

	"github.com/lockstep-dev/lockstep/event"
	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/kubeconfig"
	"github.com/lockstep-dev/lockstep/protocol"
)

// Config configures a Follower. All fields are required.
type Config struct {
	Node       protocol.NodeID
	Kubeconfig *kubeconfig.File
	Asks       bool // --apiserver-readyz: RunReadyz runs
	None       bool // there is no kube-apiserver
	Local      *event.Value[protocol.Local]
	Fleet      *event.Value[protocol.Fleet]
	// ServicesChanged returns a channel that is closed when the state of a service changes.
	ServicesChanged func() <-chan struct{}
	YieldAfter      time.Duration // --leader-yield-after
	Bundle          string        // --bundle
	Log             *slog.Logger
}

// Follower follows the kube-apiserver.
type Follower struct {
	cfg     Config
	state   *event.Value[httpapi.APIServer]
	shown   *event.Value[httpapi.APIServer]
	damper  damper // only the goroutine of RunReadyz uses it
	answers *event.Value[turnAnswers]
	version *event.Value[string]
	other   *event.Value[string]
}

// New returns a Follower that asks nothing before it runs.
func New(cfg Config) *Follower {
	f := &Follower{
		cfg: cfg, state: event.New(httpapi.APIServer{Enabled: cfg.Asks}), shown: event.New(httpapi.APIServer{Enabled: cfg.Asks}),
		answers: event.New(turnAnswers{}), version: event.New(""),
	}
	f.other = event.New(f.Problem())
	return f
}

// State follows the last answer. Now returns it as people see it.
func (f *Follower) State() *event.Value[httpapi.APIServer] { return f.state }

// Shown follows the damped state that other nodes see.
func (f *Follower) Shown() *event.Value[httpapi.APIServer] { return f.shown }

// AnswersChanged returns a channel that is closed when Down and Now may change because of a turn.
func (f *Follower) AnswersChanged() <-chan struct{} { return f.answers.Changed() }

// Version follows the version; empty: not known yet.
func (f *Follower) Version() *event.Value[string] { return f.version }

// Other follows why the version keeps this node from registering; empty: it does not.
func (f *Follower) Other() *event.Value[string] { return f.other }

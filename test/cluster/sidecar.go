package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
)

const sidecarTimeout = 30 * time.Second

// SidecarConfig configures a sidecar. A field that is zero or empty means the
// sidecar's default, unless its comment says otherwise.
type SidecarConfig struct {
	NodeID         string // required; also names the log
	Kubeconfig     string
	Bundle         string   // directory; empty: the built-in bundle, unless Args name one
	EtcdServers    []string // empty: the cluster's etcd
	EtcdInArgs     bool     // Args say which etcd it uses, or that it runs etcd itself
	EtcdPrefix     string
	Listen         string // host:port; empty: a free one on loopback
	LeaseTTL       time.Duration
	ShutdownDelay  *time.Duration // nil: the default; a pointer to 0: no delay
	ResyncInterval time.Duration
	Args           []string // more flags; they override the fields
	Env            []string // more environment variables, NAME=value
	Wrapper        []string // a program with its arguments that becomes the sidecar, such as nsenter
	// Starter starts the process, such as slowdisk.Disk.Start; nil: StartCommand.
	Starter func(*exec.Cmd) error
	// Client is how requests reach it if Args let it serve HTTPS; nil: it serves HTTP.
	Client *tls.Config
}

// Sidecar is a sidecar that runs as a child process.
type Sidecar struct {
	*Process
	NodeID string

	listen string
	tls    *tls.Config
	client *http.Client
}

// StartSidecar starts a sidecar. It returns when the sidecar is alive, before it is
// ready.
func (c *Cluster) StartSidecar(cfg SidecarConfig) (*Sidecar, error) {
	s, err := c.LaunchSidecar(cfg)
	if err != nil {
		return nil, err
	}
	return s, s.AwaitStart(sidecarTimeout, s.alive)
}

// LaunchSidecar starts a sidecar that may end by itself at once. It does not wait.
func (c *Cluster) LaunchSidecar(cfg SidecarConfig) (*Sidecar, error) {
	if cfg.NodeID == "" {
		return nil, errors.New("start sidecar: SidecarConfig.NodeID is required")
	}
	name := "sidecar-" + cfg.NodeID
	if cfg.Listen == "" {
		var err error
		if cfg.Listen, err = etcdtest.FreeAddr(); err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
	}
	if len(cfg.EtcdServers) == 0 && !cfg.EtcdInArgs {
		cfg.EtcdServers = c.Endpoints()
	}
	p, err := c.start("sidecar", processConfig{name: name, args: sidecarArgs(cfg), env: cfg.Env, wrapper: cfg.Wrapper, start: cfg.Starter})
	if err != nil {
		return nil, err
	}
	s := &Sidecar{
		Process: p,
		NodeID:  cfg.NodeID,
		listen:  cfg.Listen,
		tls:     cfg.Client,
	}
	s.client = s.NewClient(0)
	return s, nil
}

// NewClient returns a client for this sidecar, with one connection for each request. Over HTTPS it keeps
// connections, since each handshake is paid for by those who are not known yet.
func (s *Sidecar) NewClient(timeout time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: s.tls == nil, TLSClientConfig: s.tls}, Timeout: timeout}
}

func sidecarArgs(cfg SidecarConfig) []string {
	args := []string{
		"run",
		"--node-id=" + cfg.NodeID,
		"--listen=" + cfg.Listen,
	}
	optional := func(flag, value, zero string) {
		if value != zero {
			args = append(args, "--"+flag+"="+value)
		}
	}
	optional("etcd-servers", strings.Join(cfg.EtcdServers, ","), "")
	optional("kubeconfig", cfg.Kubeconfig, "")
	optional("bundle", cmp.Or(cfg.Bundle, "builtin"), "")
	optional("etcd-prefix", cfg.EtcdPrefix, "")
	optional("lease-ttl", cfg.LeaseTTL.String(), "0s")
	optional("resync-interval", cfg.ResyncInterval.String(), "0s")
	if cfg.ShutdownDelay != nil {
		args = append(args, "--shutdown-delay="+cfg.ShutdownDelay.String())
	}
	return append(args, cfg.Args...)
}

// Listen is the host:port on which the sidecar listens.
func (s *Sidecar) Listen() string { return s.listen }

// URL is the address of the sidecar's HTTP server.
func (s *Sidecar) URL() string {
	if s.tls != nil {
		return "https://" + s.listen
	}
	return "http://" + s.listen
}

// Get makes one request to the sidecar.
func (s *Sidecar) Get(ctx context.Context, path string) (code int, body string, err error) {
	return get(ctx, s.client, s.URL()+path)
}

func (s *Sidecar) alive(ctx context.Context) error {
	code, body, err := s.Get(ctx, "/livez")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("/livez answers %d: %s", code, body)
	}
	return nil
}

// Readyz returns nil if /readyz answers 200, and otherwise why it does not.
func (s *Sidecar) Readyz(ctx context.Context) error {
	code, body, err := s.Get(ctx, "/readyz")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("/readyz of %s answers %d: %s", s.NodeID, code, firstFailure(body))
	}
	return nil
}

// OnChange returns a condition for Await that starts a process, such as a command which shows the status. It asks /status, which
// costs a twentieth of that, and cond only if the answer is another one than at the last question, or after a second: what a
// command shows also depends on the time.
func (s *Sidecar) OnChange(cond func(context.Context) error) func(context.Context) error {
	var (
		asked  time.Time
		answer string
		last   error
	)
	return func(ctx context.Context) error {
		_, now, err := s.Get(ctx, "/status")
		if err == nil && now == answer && time.Since(asked) < pollPause {
			return last
		}
		asked, answer, last = time.Now(), now, cond(ctx)
		return last
	}
}

// Status returns the content of /status.
func (s *Sidecar) Status(ctx context.Context) (Status, error) {
	code, body, err := s.Get(ctx, "/status")
	if err != nil {
		return Status{}, err
	}
	if code != http.StatusOK {
		return Status{}, fmt.Errorf("/status of %s answers %d: %s", s.NodeID, code, body)
	}
	var status Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		return Status{}, fmt.Errorf("/status of %s: %w", s.NodeID, err)
	}
	return status, nil
}

// Status is the part of /status that tests and launchers read. openapi.yaml
// describes all of it.
type Status struct {
	Node struct {
		ID                 string `json:"id"`
		Release            string `json:"release"`
		RegisteredRevision int64  `json:"registeredRevision"`
	} `json:"node"`
	Ready struct {
		Ready   bool       `json:"ready"`
		Reason  string     `json:"reason"`
		Message string     `json:"message"`
		Since   *time.Time `json:"since"`
	} `json:"ready"`
	Reconciler struct {
		Kind                     string `json:"kind"`
		State                    string `json:"state"` // empty: no status exists
		Bundle                   string `json:"bundle"`
		Version                  string `json:"version"`
		MinimumCompatibleRelease string `json:"minimumCompatibleRelease"`
		Leader                   string `json:"leader"`
		Epoch                    int64  `json:"epoch"`
		ModRevision              int64  `json:"modRevision"`
	} `json:"reconciler"`
	Election struct {
		State    string `json:"state"` // ineligible, campaigning, leading
		Leader   string `json:"leader"`
		Epoch    int64  `json:"epoch"`
		Eligible bool   `json:"eligible"`
	} `json:"election"`
	Fleet struct {
		Revision   int64       `json:"revision"`
		MinRelease string      `json:"minRelease"`
		MaxRelease string      `json:"maxRelease"`
		Nodes      []FleetNode `json:"nodes"`
	} `json:"fleet"`
	Reconcile struct {
		LastError string        `json:"lastError"`
		Objects   ObjectCounts  `json:"objects"`
		Failures  []FailureItem `json:"failures"`
		Strangers []struct {
			Object string `json:"object"` // as in ConfigMap "namespace/name"
		} `json:"strangers"` // the first ten
		TotalStrangers int `json:"totalStrangers"`
	} `json:"reconcile"`
	Etcd struct {
		Connected bool     `json:"connected"`
		Revision  int64    `json:"revision"`
		Endpoints []string `json:"endpoints"`
		Problem   string   `json:"problem"`
	} `json:"etcd"`
	UpgradeReady bool `json:"upgradeReady"`
}

// FleetNode is one node as a sidecar sees it.
type FleetNode struct {
	ID      string `json:"id"`
	Release string `json:"release"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason"`
	Alive   bool   `json:"alive"`
	Blocks  bool   `json:"blocks"`
}

// ObjectCounts counts the objects of the last pass.
type ObjectCounts struct {
	Desired   int `json:"desired"`
	Applied   int `json:"applied"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	Pruned    int `json:"pruned"`
	Owed      int `json:"owed"`
}

// FailureItem is an object that the last pass could not apply.
type FailureItem struct {
	Object  string `json:"object"`
	Message string `json:"message"`
}

// Blockers returns the IDs of the nodes that block the leader.
func (s Status) Blockers() []string {
	var ids []string
	for _, n := range s.Fleet.Nodes {
		if n.Blocks {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Describe returns the reconciler status in a few words.
func (s Status) Describe() string {
	r := s.Reconciler
	if r.State == "" {
		return "none"
	}
	return fmt.Sprintf("%s %s min %s", r.State, r.Version, cmp.Or(r.MinimumCompatibleRelease, "?"))
}

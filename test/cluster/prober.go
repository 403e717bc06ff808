package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
)

// Probe is the result of the kubelet's prober.
type Probe struct {
	Result string `json:"result"` // success, warning (counts as success), failure, unknown
	Output string `json:"output"`
	Error  string `json:"error"`
}

// OK reports whether the kubelet counts it as a success.
func (p Probe) OK() bool { return p.Result == "success" || p.Result == "warning" }

// Prober probes HTTP endpoints with the kubelet's own code. That runs in a child
// process because it needs all of Kubernetes' dependencies. Its methods may be called
// from many goroutines.
type Prober struct {
	cmd *exec.Cmd

	mu      sync.Mutex // mu guards the fields below; held from request to answer
	in      io.WriteCloser
	answers *bufio.Scanner
}

// StartProber starts a prober that ends with the cluster.
func (c *Cluster) StartProber() (*Prober, error) {
	cmd := exec.Command(filepath.Join(c.cfg.Assets, "kubelet-probe"))
	cmd.Env = plainEnviron()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, fmt.Errorf("start kubelet-probe: %w", err)
	}
	if err := StartCommand(cmd); err != nil {
		return nil, fmt.Errorf("start kubelet-probe: %w", err)
	}
	p := &Prober{cmd: cmd, in: in, answers: bufio.NewScanner(out)}
	c.onClose(p.close)
	return p, nil
}

// Probe probes url as a readiness probe with default settings would.
func (p *Prober) Probe(url string) (Probe, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.in, url); err != nil {
		return Probe{}, fmt.Errorf("probe %s: %w", url, err)
	}
	if !p.answers.Scan() {
		return Probe{}, fmt.Errorf("probe %s: %w", url, errors.Join(io.ErrUnexpectedEOF, p.answers.Err()))
	}
	var probe Probe
	if err := json.Unmarshal(p.answers.Bytes(), &probe); err != nil {
		return Probe{}, fmt.Errorf("probe %s: %w", url, err)
	}
	return probe, nil
}

func (p *Prober) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.in.Close(); err != nil {
		return fmt.Errorf("stop kubelet-probe: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop kubelet-probe: %w", err)
	}
	return nil
}

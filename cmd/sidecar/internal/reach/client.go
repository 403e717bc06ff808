package reach

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
	"github.com/lockstep-dev/lockstep/internal/backoff"
	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
	"github.com/lockstep-dev/lockstep/internal/shell"
	"github.com/lockstep-dev/lockstep/report"
)

// Server names the sidecar to which a command sends its requests, and the certificates.
type Server struct{ URL, CAFile, CertFile, keyFile string }

// Bind adds the flags, with their defaults.
func (f *Server) Bind(flags *pflag.FlagSet) {
	f.URL = "http://" + nodeaddress.DefaultListen
	flags.StringVar(&f.URL, "server", f.URL, "`URL` of the sidecar.")
	flags.StringVar(&f.CAFile, "certificate-authority", f.CAFile, "PEM `file` with the authorities of the sidecar's certificate. If empty, the system's.")
	flags.StringVar(&f.CertFile, "client-certificate", f.CertFile, "PEM `file` with the client certificate.")
	flags.StringVar(&f.keyFile, "client-key", f.keyFile, "PEM `file` with the key of --client-certificate.")
}

// ServerOptions are the options by which commands reach the sidecar of this machine, as its environment has them. They
// begin with a space; empty: the defaults suffice.
func ServerOptions(p console.Program) string {
	var f Server
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bind(flags)
	var out strings.Builder
	flags.VisitAll(func(flag *pflag.Flag) {
		if value, _ := p.LookupEnv(console.EnvName(flag.Name)); value != "" && value != flag.DefValue {
			out.WriteString(" --" + flag.Name + "=" + shell.Quote(value))
		}
	})
	return out.String()
}

// Sidecar sends requests to one sidecar.
type Sidecar struct {
	Base  string
	http  *http.Client
	ended func() string // how the sidecar ended that refused a request; empty: not known
}

// endUnknown is for a sidecar that left nothing that this machine can read.
const endUnknown = "its log has the reason of its last exit (with systemd: journalctl -u 'lockstep*' -n 20); if it has none, the sidecar was killed: " +
	`to see whether memory ran out: journalctl -k | grep -i "killed process"`

const (
	// RequestTimeout bounds one request to a sidecar.
	RequestTimeout = 10 * time.Second
	// streamIdle is three intervals of the server's keep-alive comments.
	streamIdle = 45 * time.Second
	// reconnectPause is the pause between two attempts to reach a sidecar.
	reconnectPause = time.Second
	// maxEvent bounds one event of a stream: a fleet of thousands fits.
	maxEvent = 16 << 20
)

// Client returns a client. Without the environment of p, it does not know how a sidecar ended.
func (f *Server) Client(p console.Program) (*Sidecar, error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, console.Usagef("--server: %q: must be http://HOST:PORT or https://HOST:PORT", f.URL)
	}
	config, err := f.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   RequestTimeout,
		ResponseHeaderTimeout: RequestTimeout,
		ForceAttemptHTTP2:     true,
	}
	base := strings.TrimSuffix(f.URL, "/")
	return &Sidecar{Base: base, http: &http.Client{Transport: transport}, ended: func() string { return lastExit(p, base) }}, nil
}

func (f *Server) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (f.CertFile == "") != (f.keyFile == "") {
		return nil, console.Usagef("--client-certificate and --client-key must be set together")
	}
	if f.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(f.CertFile, f.keyFile)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority %q contains no certificate", f.CAFile)
		}
	}
	return config, nil
}

// AnswerError is an answer with another status code than 200.
type AnswerError struct {
	URL    string
	Code   int
	Status string
	detail string
}

func (e *AnswerError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s answered %s", e.URL, e.Status)
	}
	return fmt.Sprintf("%s answered %s: %s", e.URL, e.Status, e.detail)
}

// Request requests path and returns the answer, whatever its code.
func (c *Sidecar) Request(ctx context.Context, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", c.Base, err)
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("request to the sidecar: %w; is the sidecar running? %s", err, cmp.Or(c.ended(), endUnknown))
		}
		return nil, fmt.Errorf("request to the sidecar: %w", err)
	}
	return resp, nil
}

// Get requests path and returns the answer if its code is 200.
func (c *Sidecar) Get(ctx context.Context, path, accept string) (*http.Response, error) {
	resp, err := c.Request(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer CloseBody(resp)
	var p report.Problem
	if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&p) != nil {
		p.Detail = "" // not from a sidecar, but from a proxy for example
	}
	return nil, &AnswerError{URL: c.Base + path, Code: resp.StatusCode, Status: resp.Status, detail: p.Detail}
}

// CloseBody closes an answer without reading the rest.
func CloseBody(resp *http.Response) { _ = resp.Body.Close() }

// Answer is a report and the JSON that it was decoded from.
type Answer struct {
	Raw    []byte
	Report report.Status
}

// Decode returns the report that a sidecar answered.
func Decode(raw []byte) (Answer, error) {
	out := Answer{Raw: bytes.TrimSpace(raw)}
	if err := json.Unmarshal(raw, &out.Report); err != nil {
		return Answer{}, fmt.Errorf("decode status: %w", err)
	}
	return out, nil
}

// Status requests the status once.
func (c *Sidecar) Status(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	resp, err := c.Get(ctx, "/status", "application/json")
	if err != nil {
		return Answer{}, err
	}
	defer CloseBody(resp)
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read status: %w", err)
	}
	return Decode(raw)
}

// Follower receives the answers in the stream of a sidecar.
type Follower struct {
	Turn bool // sidecar turn follows while it runs
	// Each gets every answer, and reports whether that was enough.
	Each func(Answer) (enough bool, err error)
	// Lost gets the reason each time the stream breaks.
	Lost func(error)
}

// Follow streams the status until the follower is satisfied or ctx ends (nil too: the caller knows its ctx). It
// connects again if the sidecar is unreachable or answers 5xx; any other error code ends it. While too many
// streams of the sidecar are open, it requests the status once per pause.
func (c *Sidecar) Follow(ctx context.Context, f Follower) error {
	var last []byte
	for {
		enough, err := c.stream(ctx, f)
		var refused *AnswerError
		if errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable {
			enough, err = c.poll(ctx, f, &last)
		}
		switch {
		case enough || ctx.Err() != nil:
			return nil //nolint:nilerr // the caller knows its ctx
		case errors.As(err, &refused) && !strings.HasPrefix(refused.Status, "5"):
			return err
		}
		if err != nil {
			f.Lost(err)
		}
		if !backoff.Sleep(ctx, reconnectPause) {
			return nil
		}
	}
}

// poll requests the status once, and passes it on if it is not the same as last.
func (c *Sidecar) poll(ctx context.Context, f Follower, last *[]byte) (enough bool, err error) {
	a, err := c.Status(ctx)
	if err != nil || bytes.Equal(a.Raw, *last) {
		return false, err
	}
	*last = a.Raw
	return f.Each(a)
}

// stream reads one connection. It returns no error only if the follower is satisfied.
func (c *Sidecar) stream(ctx context.Context, f Follower) (enough bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/status?watch"
	if f.Turn {
		path += "&turn"
	}
	resp, err := c.Get(ctx, path, "text/event-stream")
	if err != nil {
		return false, err
	}
	defer CloseBody(resp)
	idle := time.AfterFunc(streamIdle, cancel)
	defer idle.Stop()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		idle.Reset(streamIdle)
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !found {
			continue // an id, a comment, the end of an event
		}
		a, err := Decode(data)
		if err != nil {
			return false, err
		}
		if enough, err := f.Each(a); enough || err != nil {
			return enough, err
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("watch status: %w", err)
	}
	return false, errors.New("watch status: the sidecar closed the stream")
}

package main

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

// serverFlags name the sidecar that a command sends its requests to, and the certificates to use.
type serverFlags struct{ url, caFile, certFile, keyFile string }

func (f *serverFlags) bind(flags *pflag.FlagSet) {
	f.url = "http://" + nodeaddress.DefaultListen
	flags.StringVar(&f.url, "server", f.url, "`URL` of the sidecar.")
	flags.StringVar(&f.caFile, "certificate-authority", f.caFile, "PEM `file` with the authorities of the sidecar's certificate. If empty, the system's.")
	flags.StringVar(&f.certFile, "client-certificate", f.certFile, "PEM `file` with the client certificate.")
	flags.StringVar(&f.keyFile, "client-key", f.keyFile, "PEM `file` with the key of --client-certificate.")
}

// serverOptions are the options by which commands reach the sidecar of this machine, as its environment has them. They
// begin with a space; empty: the defaults suffice.
func serverOptions(p console.Program) string {
	var f serverFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.bind(flags)
	var out strings.Builder
	flags.VisitAll(func(flag *pflag.Flag) {
		if value, _ := p.LookupEnv(console.EnvName(flag.Name)); value != "" && value != flag.DefValue {
			out.WriteString(" --" + flag.Name + "=" + shell.Quote(value))
		}
	})
	return out.String()
}

// statusClient sends requests to one sidecar.
type statusClient struct {
	base  string
	http  *http.Client
	ended func() string // how the sidecar ended that refused a request; empty: not known
}

// endUnknown is for a sidecar that left nothing that this machine can read.
const endUnknown = "its log has the reason of its last exit; if it has none, the sidecar was killed: " +
	`to see whether memory ran out: journalctl -k | grep -i "killed process"`

const (
	requestTimeout = 10 * time.Second
	// streamIdle is three intervals of the server's keep-alive comments.
	streamIdle = 45 * time.Second
	// reconnectPause is the pause between two attempts to reach a sidecar.
	reconnectPause = time.Second
	// maxEvent bounds one event of a stream: a fleet of thousands fits.
	maxEvent = 16 << 20
)

// client returns a client. Without the environment of p, it does not know how a sidecar ended.
func (f *serverFlags) client(p console.Program) (*statusClient, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, console.Usagef("--server: %q: must be http://HOST:PORT or https://HOST:PORT", f.url)
	}
	config, err := f.tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   requestTimeout,
		ResponseHeaderTimeout: requestTimeout,
		ForceAttemptHTTP2:     true,
	}
	base := strings.TrimSuffix(f.url, "/")
	return &statusClient{base: base, http: &http.Client{Transport: transport}, ended: func() string { return lastExit(p, base) }}, nil
}

func (f *serverFlags) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (f.certFile == "") != (f.keyFile == "") {
		return nil, console.Usagef("--client-certificate and --client-key must be set together")
	}
	if f.certFile != "" {
		cert, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
		if err != nil {
			return nil, fmt.Errorf("load client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority %q contains no certificate", f.caFile)
		}
	}
	return config, nil
}

// answerError is an answer with another status code than 200.
type answerError struct {
	url    string
	code   int
	status string
	detail string
}

func (e *answerError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s answered %s", e.url, e.status)
	}
	return fmt.Sprintf("%s answered %s: %s", e.url, e.status, e.detail)
}

// request requests path and returns the answer, whatever its code.
func (c *statusClient) request(ctx context.Context, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", c.base, err)
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

// get requests path and returns the answer if its code is 200.
func (c *statusClient) get(ctx context.Context, path, accept string) (*http.Response, error) {
	resp, err := c.request(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer closeBody(resp)
	var p report.Problem
	if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&p) != nil {
		p.Detail = "" // not from a sidecar, but from a proxy for example
	}
	return nil, &answerError{url: c.base + path, code: resp.StatusCode, status: resp.Status, detail: p.Detail}
}

// closeBody closes an answer without reading the rest.
func closeBody(resp *http.Response) { _ = resp.Body.Close() }

// answer is a report and the JSON that it was decoded from.
type answer struct {
	raw    []byte
	report report.Status
}

func decode(raw []byte) (answer, error) {
	out := answer{raw: bytes.TrimSpace(raw)}
	if err := json.Unmarshal(raw, &out.report); err != nil {
		return answer{}, fmt.Errorf("decode status: %w", err)
	}
	return out, nil
}

// status requests the status once.
func (c *statusClient) status(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.get(ctx, "/status", "application/json")
	if err != nil {
		return answer{}, err
	}
	defer closeBody(resp)
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read status: %w", err)
	}
	return decode(raw)
}

// follower receives the answers in the stream of a sidecar.
type follower struct {
	turn bool // sidecar turn follows while it runs
	// each gets every answer, and reports whether that was enough.
	each func(answer) (enough bool, err error)
	// lost gets the reason each time the stream breaks.
	lost func(error)
}

// follow streams the status until the follower is satisfied or ctx ends (nil too: the caller knows its ctx). It
// connects again if the sidecar is unreachable or answers 5xx; any other error code ends it. While too many
// streams of the sidecar are open, it requests the status once per pause.
func (c *statusClient) follow(ctx context.Context, f follower) error {
	var last []byte
	for {
		enough, err := c.stream(ctx, f)
		var refused *answerError
		if errors.As(err, &refused) && refused.code == http.StatusServiceUnavailable {
			enough, err = c.poll(ctx, f, &last)
		}
		switch {
		case enough || ctx.Err() != nil:
			return nil //nolint:nilerr // the caller knows its ctx
		case errors.As(err, &refused) && !strings.HasPrefix(refused.status, "5"):
			return err
		}
		if err != nil {
			f.lost(err)
		}
		if !backoff.Sleep(ctx, reconnectPause) {
			return nil
		}
	}
}

// poll requests the status once, and passes it on if it is not the same as last.
func (c *statusClient) poll(ctx context.Context, f follower, last *[]byte) (enough bool, err error) {
	a, err := c.status(ctx)
	if err != nil || bytes.Equal(a.raw, *last) {
		return false, err
	}
	*last = a.raw
	return f.each(a)
}

// stream reads one connection. It returns no error only if the follower is satisfied.
func (c *statusClient) stream(ctx context.Context, f follower) (enough bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path := "/status?watch"
	if f.turn {
		path += "&turn"
	}
	resp, err := c.get(ctx, path, "text/event-stream")
	if err != nil {
		return false, err
	}
	defer closeBody(resp)
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
		a, err := decode(data)
		if err != nil {
			return false, err
		}
		if enough, err := f.each(a); enough || err != nil {
			return enough, err
		}
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("watch status: %w", err)
	}
	return false, errors.New("watch status: the sidecar closed the stream")
}

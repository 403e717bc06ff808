package main

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/spf13/pflag"

	"github.com/lockstep-dev/lockstep/httpapi"
)

// serverFlags say which sidecar a command asks, and how.
type serverFlags struct{ url, caFile, certFile, keyFile string }

func (f *serverFlags) bind(flags *pflag.FlagSet) {
	f.url = "http://127.0.0.1:8086"
	flags.StringVar(&f.url, "server", f.url, "`URL` of the sidecar to ask.")
	flags.StringVar(&f.caFile, "certificate-authority", f.caFile, "PEM `file` with the authority of the sidecar's certificate. If empty, the system's.")
	flags.StringVar(&f.certFile, "client-certificate", f.certFile, "PEM `file` with the certificate to show, where the sidecar has --client-ca-file.")
	flags.StringVar(&f.keyFile, "client-key", f.keyFile, "PEM `file` with the key of --client-certificate.")
}

// client asks one sidecar.
type client struct {
	base string
	http *http.Client
}

const (
	requestTimeout = 10 * time.Second
	// streamIdle is three of the server's signs of life.
	streamIdle = 45 * time.Second
	// reconnectPause is between two attempts to reach a sidecar that is away.
	reconnectPause = time.Second
	// maxEvent bounds one event of a stream: a fleet of thousands fits.
	maxEvent = 16 << 20
)

func (f *serverFlags) client() (*client, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usagef("--server: %q: want http://HOST:PORT or https://HOST:PORT", f.url)
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
	return &client{base: strings.TrimSuffix(f.url, "/"), http: &http.Client{Transport: transport}}, nil
}

func (f *serverFlags) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if (f.certFile == "") != (f.keyFile == "") {
		return nil, usagef("--client-certificate and --client-key go together")
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
			return nil, fmt.Errorf("certificate authority %q: no certificate in it", f.caFile)
		}
	}
	return config, nil
}

// answerError is an answer that asking again will not change.
type answerError struct {
	url    string
	status string
	detail string
}

func (e *answerError) Error() string {
	if e.detail == "" {
		return fmt.Sprintf("%s answered %s", e.url, e.status)
	}
	return fmt.Sprintf("%s answered %s: %s", e.url, e.status, e.detail)
}

// get asks for path and returns the answer if it is 200.
func (c *client) get(ctx context.Context, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the sidecar: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer closeBody(resp)
	var p httpapi.Problem
	if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&p) != nil {
		p.Detail = "" // not a sidecar, or a proxy before it
	}
	return nil, &answerError{url: c.base + path, status: resp.Status, detail: p.Detail}
}

// closeBody ends with an answer; what is left of it is of no interest.
func closeBody(resp *http.Response) { _ = resp.Body.Close() }

// answer is a report, and the JSON it came in.
type answer struct {
	raw    []byte
	report httpapi.Report
}

func decode(raw []byte) (answer, error) {
	out := answer{raw: bytes.TrimSpace(raw)}
	if err := json.Unmarshal(raw, &out.report); err != nil {
		return answer{}, fmt.Errorf("decode status: %w", err)
	}
	return out, nil
}

// status asks once.
func (c *client) status(ctx context.Context) (answer, error) {
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

// follower is told what a followed sidecar says.
type follower struct {
	// each gets every answer, and reports whether that was enough.
	each func(answer) (enough bool, err error)
	// lost gets each reason why the sidecar could not be followed for a while.
	lost func(error)
}

// follow streams the status until the follower has enough, ctx ends (nil too:
// the caller knows its ctx), or an answer says that asking again is of no use. A
// sidecar that is away, or answers 5xx, is asked again.
func (c *client) follow(ctx context.Context, f follower) error {
	for {
		enough, err := c.stream(ctx, f)
		var refused *answerError
		switch {
		case enough || ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && !strings.HasPrefix(refused.status, "5"):
			return err
		}
		f.lost(err)
		pause := time.NewTimer(reconnectPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// stream follows one connection. It ends without an error only where that was
// enough.
func (c *client) stream(ctx context.Context, f follower) (enough bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.get(ctx, "/status?watch", "text/event-stream")
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
		return false, fmt.Errorf("follow status: %w", err)
	}
	return false, errors.New("follow status: the sidecar ended the stream")
}

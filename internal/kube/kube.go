// Package kube sends requests to one kube-apiserver, for objects of any kind: the
// few requests that reconciliation needs, and discovery of the kinds that a bundle
// names. It decides nothing and retries nothing. Package reconcile classifies the
// answers, and checks its lease before each write.
//
// It uses the transport of client-go, and no package that imports k8s.io/api, which would
// double the binary (docs/adr/0003-no-k8s-api.md). Each request runs in a goroutine, which ends
// with it; Transport says when it ends later.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/report"
)

// MaxTimeout bounds how long a request may take, at the server too
// (docs/upstream.md#apiserver-timeouts).
const MaxTimeout = 5 * time.Second

// MaxAnswer limits the bytes of an answer that Do returns: far more than of any object, and of discovery.
const MaxAnswer = 32 << 20

// Client sends requests to one kube-apiserver. It needs no rate limit; the server's priority
// and fairness is enough. Its methods may be called from many goroutines.
type Client struct {
	http      *http.Client
	transport *Transport
	userAgent string
	answered  atomic.Pointer[time.Time]
	trouble   atomic.Pointer[report.Trouble] // nil: the newest answer shows that the API can be used
	pages     pages
}

// New returns a client for the kube-apiserver of cfg. It does not connect. If cfg contains a
// *Transport, the client uses it. Rate limits and the timeout of cfg do not apply.
func New(cfg *rest.Config, userAgent string) (*Client, error) {
	t, own := cfg.Transport.(*Transport)
	if !own {
		var err error
		if t, err = NewTransport(cfg); err != nil {
			return nil, err
		}
	}
	return t.Client(userAgent), nil
}

// Client returns a client that sends its requests with t.
func (t *Transport) Client(userAgent string) *Client {
	return &Client{http: &http.Client{Transport: t}, transport: t, userAgent: userAgent}
}

// CloseIdle closes the connections that no request uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Request is one request. Path begins with a slash and is escaped.
type Request struct {
	Verb        string
	Path        string
	Query       url.Values
	Accept      string // empty: JSON
	ContentType string
	Body        []byte
}

// Do sends r and returns the body of the answer. The request ends with ctx, and after
// MaxTimeout at the latest. The server gets that limit as well, and stops working on the
// request then.
//
// If the answer is an error, the error is an *apierrors.StatusError. If there is
// no answer, it is a *TransportError.
func (c *Client) Do(ctx context.Context, r Request) (body []byte, err error) {
	err = c.stream(ctx, r, func(in io.Reader) (err error) {
		if body, err = io.ReadAll(io.LimitReader(in, MaxAnswer+1)); len(body) > MaxAnswer {
			return fmt.Errorf("%s %s: the answer has more than %d bytes", r.Verb, r.Path, MaxAnswer)
		}
		return err
	})
	return body, err
}

// stream is Do for an answer that read decodes while it arrives. An error of read
// is returned as it is, unless the body itself could not be read.
func (c *Client) stream(ctx context.Context, r Request, read func(io.Reader) error) error {
	err := c.send(ctx, r, read)
	if err != nil {
		c.noteFailure(ctx, r, err)
	}
	return err
}

func (c *Client) send(ctx context.Context, r Request, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, MaxTimeout)
	defer cancel()
	query := url.Values{}
	maps.Copy(query, r.Query)
	deadline, _ := ctx.Deadline()
	// At least 1: with 0 the server would use its default, a minute.
	query.Set("timeout", fmt.Sprintf("%dms", max(1, time.Until(deadline).Milliseconds())))
	r.Query = query
	resp, err := c.connect(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := &source{in: resp.Body}
	if err = read(in); err == nil {
		_, err = io.Copy(io.Discard, in) // so that the connection can be used again
	}
	if in.err != nil {
		return transportError(context.Cause(ctx), in.err)
	}
	c.note(resp.StatusCode)
	return err
}

// connect sends a request, and returns the beginning of an answer that is no error. The caller
// closes its body.
func (c *Client) connect(ctx context.Context, r Request) (*http.Response, error) {
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, transportError(context.Cause(ctx), err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer))
	if err != nil {
		return nil, transportError(context.Cause(ctx), err)
	}
	c.note(resp.StatusCode)
	return nil, statusError(r, resp, body)
}

// source keeps the error with which its reader failed; nil: it did not.
type source struct {
	in  io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// note remembers when an answer with a working code came.
func (c *Client) note(code int) {
	if works(code) {
		now := time.Now()
		c.answered.Store(&now)
		c.trouble.Store(nil)
	}
}

// works reports whether an answer shows that the API can be used: it does not
// reject the user, shed load or fail.
func works(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return code < http.StatusInternalServerError
}

// Answered returns when the API last gave an answer that shows that it can be used,
// on the monotonic clock; zero: never.
func (c *Client) Answered() time.Time {
	if at := c.answered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (c *Client) request(ctx context.Context, r Request) (_ *http.Request, err error) {
	u := *c.transport.Base()
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + r.Path
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Verb, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", cmp.Or(r.Accept, "application/json"))
	req.Header.Set("User-Agent", c.userAgent)
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	return req, nil
}

// statusError returns an answer as an error, with the API's message if the body contains one.
func statusError(r Request, resp *http.Response, body []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err == nil && status.Kind == "Status" {
		if status.Code == 0 {
			status.Code = int32(resp.StatusCode)
		}
		retryAfter(&status, resp)
		return &apierrors.StatusError{ErrStatus: status}
	}
	text := strings.TrimSpace(string(body[:min(len(body), 200)]))
	resource := schema.GroupResource{Resource: path.Base(r.Path)} // for the message
	err := apierrors.NewGenericServerResponse(resp.StatusCode, r.Verb, resource, "", text, 0, true)
	retryAfter(&err.ErrStatus, resp)
	return err
}

// retryAfter copies the header to the status, if the status contains no pause itself.
func retryAfter(status *metav1.Status, resp *http.Response) {
	var seconds int32
	if _, err := fmt.Sscan(resp.Header.Get("Retry-After"), &seconds); err != nil || seconds <= 0 {
		return
	}
	if status.Details == nil {
		status.Details = &metav1.StatusDetails{}
	}
	if status.Details.RetryAfterSeconds == 0 {
		status.Details.RetryAfterSeconds = seconds
	}
}

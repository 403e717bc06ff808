// Package kube speaks to one apiserver about objects of any kind: the few
// requests that reconciliation needs, and discovery of just the kinds that a
// bundle names. It decides nothing and repeats nothing: what an answer means is
// for package reconcile, which checks its lease before each write.
//
// It uses the transport of client-go, and no package that imports k8s.io/api,
// which would double the binary (FACTS 9). It starts no goroutine of its own.
package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// MaxTimeout is how long a request may live, at the server too (DESIGN 6.4).
const MaxTimeout = 5 * time.Second

// Client sends requests to one apiserver. It has no rate limit: the server's own
// priority and fairness decides.
type Client struct {
	http      *http.Client
	base      *url.URL
	userAgent string
	answered  atomic.Pointer[time.Time]
}

// New returns a client for the apiserver of cfg. It does not connect.
func New(cfg *rest.Config, userAgent string) (*Client, error) {
	own := rest.CopyConfig(cfg)
	own.UserAgent = userAgent
	own.Timeout = 0 // each request has its own
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, fmt.Errorf("apiserver address: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("apiserver transport: %w", err)
	}
	return &Client{http: httpClient, base: base, userAgent: userAgent}, nil
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

// Do sends r and returns the body of an answer below 300. The request lives no
// longer than ctx and MaxTimeout, and the server is told so: what it has not
// done by then it gives up.
//
// An answer that is an error is an *apierrors.StatusError. Where no answer came
// it is a *TransportError.
func (c *Client) Do(ctx context.Context, r Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxTimeout)
	defer cancel()
	query := url.Values{}
	maps.Copy(query, r.Query)
	deadline, _ := ctx.Deadline()
	// Milliseconds, rounded up: 0 would mean the server's own minute.
	query.Set("timeout", fmt.Sprintf("%dms", max(1, time.Until(deadline).Milliseconds())))
	r.Query = query
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, transportError(ctx, err)
	}
	c.note(resp.StatusCode)
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, statusError(r, resp, body)
	}
	return body, nil
}

// note remembers an answer.
func (c *Client) note(code int) {
	if works(code) {
		now := time.Now()
		c.answered.Store(&now)
	}
}

// works reports whether an answer shows an API that can be worked with: it is
// not one that refuses the user, sheds load or fails.
func works(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return false
	}
	return code < http.StatusInternalServerError
}

// Answered returns when the API last gave an answer that shows that it can be
// worked with, on the monotonic clock; zero: never.
func (c *Client) Answered() time.Time {
	if at := c.answered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (c *Client) request(ctx context.Context, r Request) (_ *http.Request, err error) {
	u := *c.base
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + r.Path
	if u.Path, err = url.PathUnescape(u.RawPath); err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	u.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Verb, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", r.Accept)
	if r.Accept == "" {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("User-Agent", c.userAgent)
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	return req, nil
}

// statusError makes an error of an answer: the API's own words, where the body
// has them.
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
	err := apierrors.NewGenericServerResponse(resp.StatusCode, r.Verb, resourceOf(r.Path), "", text, 0, true)
	retryAfter(&err.ErrStatus, resp)
	return err
}

// retryAfter takes the header over where the body does not say the same.
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

package readiness

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/lockstep-dev/lockstep/internal/checks"
)

const (
	// maxShown bounds the excerpt in an error of an answer that names no check, in bytes.
	maxShown     = 200
	maxRedirects = 10
)

// probe sends one request on its own connection, without a proxy.
func (h *HTTPGet) probe(ctx context.Context) error {
	config, err := h.tls()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "lockstep-probe")
	req.Header.Set("Accept", "*/*")
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: redirect,
	}
	resp, err := client.Do(req)
	if err != nil {
		return withoutQuery(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, checks.MaxBody))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest {
		if why := cmp.Or(checks.Failed(string(body)), checks.Message(string(body))); why != "" {
			return fmt.Errorf("HTTP status %d: %s", resp.StatusCode, why)
		}
		return fmt.Errorf("HTTP status %d: %q", resp.StatusCode, body[:min(len(body), maxShown)])
	}
	return nil
}

// withoutQuery removes the query of the URL from the error of a request, as net/http removes a password: it may contain a
// token, and people and programs read the error.
func withoutQuery(err error) error {
	failed, is := errors.AsType[*url.Error](err)
	if !is {
		return err
	}
	shown := *failed
	if before, _, has := strings.Cut(shown.URL, "?"); has {
		shown.URL = before + "?..."
	}
	return &shown
}

// redirect follows redirects on the same host. It does not follow one to another host: the service
// answered, which is a success for a kubelet.
func redirect(req *http.Request, before []*http.Request) error {
	switch {
	case req.URL.Hostname() != before[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(before) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// tls configures the verification of the server's certificate.
func (h *HTTPGet) tls() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: h.InsecureSkipVerify}
	if h.CAFile == "" || h.InsecureSkipVerify {
		return config, nil
	}
	text, err := os.ReadFile(h.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read caFile: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("caFile %q: no certificate in PEM form", h.CAFile)
	}
	return config, nil
}

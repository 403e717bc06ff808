package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// metricsTimeout is less than the scrape timeout of most.
	metricsTimeout = 3 * time.Second
	// maxMetrics bounds the metrics of a server. A member reports some 700 series: 150 KiB.
	maxMetrics = 8 << 20
)

// ServerMetrics returns the metrics of one server, as text. It reads them with this client's
// certificate: other programs hold none.
func (c *Client) ServerMetrics(ctx context.Context, endpoint string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	config, err := c.tls.current()
	if err != nil {
		return nil, err
	}
	resp, err := getPage(ctx, endpoint+"/metrics", config)
	if err != nil {
		return nil, fmt.Errorf("metrics of etcd: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of etcd: %s answered %s", endpoint, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics+1))
	if err == nil && len(text) > maxMetrics {
		err = fmt.Errorf("more than %d bytes", maxMetrics)
	}
	if err != nil {
		return nil, fmt.Errorf("metrics of etcd: %w", err)
	}
	return text, nil
}

// getPage requests a page of a server. config is nil for none.
func getPage(ctx context.Context, page string, config *tls.Config) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), DisableKeepAlives: true}}
	return client.Do(req)
}

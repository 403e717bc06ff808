package etcd

import (
	"context"
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
	transport := &http.Transport{DisableKeepAlives: true}
	if c.tls != nil {
		config, err := c.tls.current()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config.Clone()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
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

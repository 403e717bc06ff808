package apiserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// Refuses reports whether no program accepts connections where this node's kube-apiserver
// listens.
func (f *Follower) Refuses(ctx context.Context) bool {
	api := f.cfg.Kubeconfig.Transport()
	return refuses(ctx, &http.Client{Transport: api, Timeout: pollTimeout}, api.Base().JoinPath("readyz").String())
}

// refuses reports whether no program accepts connections at a URL. After any answer, or none in
// time, a program may still listen there.
func refuses(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close() // its content does not matter
		return false
	}
	connect, failed := errors.AsType[*net.OpError](err)
	return failed && connect.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED) // not from a proxy
}

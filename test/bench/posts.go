package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// post is a POST of Lockstep.
type post struct {
	Path string // with its query
	Body []byte
}

// postKeeper keeps the POSTs of a pass, so that a bare client can send the same.
type postKeeper struct {
	mu    sync.Mutex // mu guards posts
	posts []post
}

func (k *postKeeper) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPost {
			in, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			body, err := io.ReadAll(in)
			if err != nil {
				return nil, err
			}
			k.mu.Lock()
			k.posts = append(k.posts, post{Path: req.URL.RequestURI(), Body: body})
			k.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

func (k *postKeeper) write(file string) error {
	data, err := json.Marshal(k.posts)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// readPosts returns the POSTs in a file as requests to host.
func readPosts(host, file string) ([]patch, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var posts []post
	if err := json.Unmarshal(data, &posts); err != nil {
		return nil, err
	}
	var out []patch
	for _, p := range posts {
		out = append(out, patch{method: http.MethodPost, url: strings.TrimSuffix(host, "/") + p.Path, body: p.Body})
	}
	return out, nil
}

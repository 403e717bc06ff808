package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
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

// turnsOfPosts is how often in a round Lockstep and the clients that send POSTs make a first apply, one right
// after the other. What else a machine does changes within seconds, so only neighbours compare.
const turnsOfPosts = 3

// inTurn makes a first apply by Lockstep and by two clients that send POSTs, in one order or the other.
func (a *applyBench) inTurn(ctx context.Context, backwards bool) error {
	ways := []func() error{
		func() error {
			first, _, err := a.tasks("lockstep", 1000)
			if err != nil {
				return err
			}
			_, p, err := a.runTimed(ctx, "", passArgs(a.api.Kubeconfig()), passLine(first.dir, 1))
			if err != nil {
				return err
			}
			a.add(heatPairs, "", p.Took.Seconds())
			return a.clean(ctx, registryOf("apply"), first.prefix)
		},
		func() error {
			took, err := a.create(ctx, "lockstep", barePosts(a.posters, a.posts()))
			a.add(heatPairs, peerSame, took)
			return err
		},
		func() error {
			took, err := a.create(ctx, "create", bareCreate(a.posters))
			a.add(heatPairs, peerCreate, took)
			return err
		},
	}
	if backwards {
		slices.Reverse(ways)
	}
	for _, way := range ways {
		if err := way(); err != nil {
			return err
		}
	}
	return nil
}

// create returns how many seconds one POST for each object takes. The names of the objects begin with prefix.
func (a *applyBench) create(ctx context.Context, prefix string, t tool) (float64, error) {
	first, _, err := a.tasks(prefix, 1000)
	if err != nil {
		return 0, err
	}
	if err := a.clean(ctx, registryOf("apply"), first.prefix); err != nil {
		return 0, err
	}
	_, p, err := a.runTimed(ctx, t.program, t.args(a.api.Kubeconfig(), first), "")
	if err != nil {
		return 0, err
	}
	return p.Took.Seconds(), a.clean(ctx, registryOf("apply"), first.prefix)
}

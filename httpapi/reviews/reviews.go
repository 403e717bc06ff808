// Package reviews asks a kube-apiserver for the owner of a token, and for the rights of a user to read:
// TokenReview and SubjectAccessReview, for the HTTP API (docs/operations.md#access).
//
// The answers are remembered by a hash, so that no token is kept. Each question is asked by one
// request at a time, and the others wait for its answer. While the kube-apiserver does not answer,
// the last answer counts for up to an hour: the metrics are needed most while it is down. Questions about
// clients for whom no remembered answer speaks have a budget (docs/adr/0025-what-the-http-api-asks.md).
//
// It starts no goroutine: the request that asks first carries the question.
package reviews

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultTTL is the default of kube-scheduler's flags of the same meaning.
const DefaultTTL = 10 * time.Second

// Post sends a JSON document to a path of a kube-apiserver, and returns the answer. An error: no answer, or no
// success.
type Post func(ctx context.Context, path string, body []byte) ([]byte, error)

// Config configures a Reviewer.
type Config struct {
	// Authentication reviews tokens. Nil: no token is accepted.
	Authentication Post
	// Authorization reviews the rights of users. Required.
	Authorization Post
	// TokenTTL is how long the answer about a token is used again. AllowedTTL and DeniedTTL are the same for
	// answers about rights. Zero: DefaultTTL.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
	// Registerer gets the metric lockstep_reviews_total; nil: none.
	Registerer prometheus.Registerer
}

// User is the user that a token or a client certificate names.
type User struct {
	Name   string              `json:"username,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Reviewer asks, and remembers the answers. Its methods may be called from many goroutines.
type Reviewer struct {
	cfg    Config
	tokens *cache[identity]
	rights *cache[bool]
}

// identity is the user of a token, if it is valid.
type identity struct {
	user  User
	valid bool
}

// New returns a Reviewer that asked nothing yet.
func New(cfg Config) *Reviewer {
	m := newMetrics(cfg.Registerer)
	token, allowed, denied := cmp.Or(cfg.TokenTTL, DefaultTTL), cmp.Or(cfg.AllowedTTL, DefaultTTL), cmp.Or(cfg.DeniedTTL, DefaultTTL)
	return &Reviewer{
		cfg:    cfg,
		tokens: newCache(map[bool]time.Duration{true: token, false: token}, func(i identity) bool { return i.valid }, m.counts("token")),
		rights: newCache(map[bool]time.Duration{true: allowed, false: denied}, func(yes bool) bool { return yes }, m.counts("access")),
	}
}

// TakesTokens reports whether tokens are reviewed.
func (r *Reviewer) TakesTokens() bool { return r.cfg.Authentication != nil }

// maxToken bounds a token: a ServiceAccount's takes 1 to 2 KiB.
const maxToken = 16 << 10

// Authenticate returns the owner of a token that a client at an address showed; not valid: the kube-apiserver rejects
// it. An error means that the kube-apiserver did not answer, or was not asked (ErrBusy), and that no answer is
// remembered.
func (r *Reviewer) Authenticate(ctx context.Context, from netip.Addr, token string) (user User, valid bool, err error) {
	if !r.TakesTokens() || token == "" || len(token) > maxToken {
		return User{}, false, nil
	}
	found, err := r.tokens.get(ctx, from, sha256.Sum256([]byte(token)), func(ctx context.Context) (identity, error) {
		var answer struct {
			User          User `json:"user"`
			Authenticated bool `json:"authenticated"`
		}
		err := post(ctx, r.cfg.Authentication, "authentication.k8s.io/v1", "TokenReview", map[string]any{"token": token}, &answer)
		return identity{answer.User, answer.Authenticated && answer.User.Name != ""}, err
	})
	return found.user, found.valid && err == nil, err
}

// privileged is the group that may do everything, in every cluster.
const privileged = "system:masters"

// Request is a request of a client.
type Request struct {
	From       netip.Addr // of the client
	Verb, Path string
}

// Authorize reports whether a user may send a request. Errors are those of Authenticate.
func (r *Reviewer) Authorize(ctx context.Context, user User, of Request) (allowed bool, err error) {
	allowed, err = r.authorize(ctx, user, of)
	if allowed {
		r.tokens.budget.vouch(of.From)
		r.rights.budget.vouch(of.From)
	}
	return allowed, err
}

func (r *Reviewer) authorize(ctx context.Context, user User, of Request) (allowed bool, err error) {
	if user.Name == "" {
		return false, nil
	}
	if slices.Contains(user.Groups, privileged) {
		return true, nil
	}
	spec := map[string]any{
		"user": user.Name, "uid": user.UID, "groups": user.Groups, "extra": user.Extra,
		"nonResourceAttributes": map[string]string{"path": of.Path, "verb": of.Verb},
	}
	key, err := json.Marshal(spec) // in the order of the names
	if err != nil {
		return false, err
	}
	allowed, err = r.rights.get(ctx, of.From, sha256.Sum256(key), func(ctx context.Context) (bool, error) {
		var answer struct {
			Allowed bool `json:"allowed"`
			Denied  bool `json:"denied"`
		}
		err := post(ctx, r.cfg.Authorization, "authorization.k8s.io/v1", "SubjectAccessReview", spec, &answer)
		return answer.Allowed && !answer.Denied, err
	})
	return allowed && err == nil, err
}

// post creates a review, and returns its status.
func post(ctx context.Context, send Post, group, kind string, spec, status any) error {
	body, err := json.Marshal(map[string]any{"apiVersion": group, "kind": kind, "spec": spec})
	if err != nil {
		return err
	}
	text, err := send(ctx, "/apis/"+group+"/"+strings.ToLower(kind)+"s", body)
	answer := struct {
		Status any `json:"status"`
	}{status}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// ErrBusy is the error of a question that is not asked now: unknown clients ask too many others.
var ErrBusy = errors.New("too many clients are unknown")

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Right is the right to make a request.
type Right struct {
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Name      string `json:"name,omitempty"`
}

// String reads "patch roles.rbac.authorization.k8s.io x in default".
func (r Right) String() string {
	out := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Name != "" {
		out += " " + r.Name
	}
	if r.Namespace != "" {
		out += " in " + r.Namespace
	}
	return out
}

// Allows asks the kube-apiserver whether this client's user has a right.
func (c *Client) Allows(ctx context.Context, r Right) (bool, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": r},
	})
	if err != nil {
		return false, err
	}
	text, err := c.Do(ctx, Request{
		Verb: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		ContentType: "application/json", Body: body,
	})
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	if err == nil {
		err = json.Unmarshal(text, &review)
	}
	if apierrors.IsForbidden(err) {
		return false, fmt.Errorf("ask for the right to %s: %w (%w)", r, err, ErrMayNotAsk)
	}
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s: %w", r, err)
	}
	return review.Status.Allowed, nil
}

// ResourceOf returns the resource of a kind, and whether the kube-apiserver serves it.
func (c *Client) ResourceOf(ctx context.Context, apiVersion, kind string) (Resource, bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return Resource{}, false, err
	}
	served, err := c.Resources(ctx, gv)
	r, found := served[kind]
	return r, found, err
}

// ErrMayNotAsk means that the API server does not let the user ask what it may do, as every user may.
var ErrMayNotAsk = errors.New("an API server that has just started refuses everyone until it has created its own RBAC roles")

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// metadataOfOne asks for objects without their contents, as metadataOnly does.
const metadataOfOne = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// watchTime is the shortest time that a watch asks for. It asks for up to twice as
// much, so that the watches of many clients do not end together.
const watchTime = 5 * time.Minute

// Event is one event of a watch. The object of a watch.Bookmark contains nothing but a
// resourceVersion.
type Event struct {
	Type   watch.EventType
	Object *Object
}

// Stream is an open watch. Only one goroutine may use it.
type Stream struct {
	ended  func() error // the cause of the end of the connection's context; nil: it did not end
	cancel context.CancelFunc
	body   io.Closer
	lines  *json.Decoder
	keep   Filter
	line   line // of the last event; its buffer is reused
	decoder
}

// line is one event as the server sends it.
type line struct {
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Watch opens a watch of the objects that query selects in a namespace; in all if it is empty.
// query needs a resourceVersion to start after, and may contain a selector. The stream is open
// until it is closed, ctx ends, or the server ends it.
func (c *Client) Watch(ctx context.Context, r Resource, namespace string, query url.Values) (*Stream, error) {
	return c.watch(ctx, r, namespace, query, "")
}

// WatchMetadata is Watch, with nothing but the objects' metadata. An event of an
// object that keep does not select becomes a watch.Bookmark.
func (c *Client) WatchMetadata(ctx context.Context, r Resource, namespace string, query url.Values, keep Filter) (*Stream, error) {
	s, err := c.watch(ctx, r, namespace, query, metadataOfOne)
	if err == nil {
		s.keep = keep
	}
	return s, err
}

func (c *Client) watch(ctx context.Context, r Resource, namespace string, query url.Values, accept string) (*Stream, error) {
	q := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {strconv.Itoa(int((watchTime + rand.N(watchTime)).Seconds()))},
	}
	maps.Copy(q, query)
	ctx, cancel := context.WithCancel(ctx)
	// Only the start is limited: the server answers it at once.
	late := time.AfterFunc(MaxTimeout, cancel)
	resp, err := c.connect(ctx, Request{Verb: http.MethodGet, Path: r.Path(namespace, ""), Query: q, Accept: accept})
	if !late.Stop() && err == nil {
		err = errors.Join(transportError(context.Cause(ctx), context.DeadlineExceeded), resp.Body.Close())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch %s: %w", r.Name, err)
	}
	c.note(resp.StatusCode)
	return &Stream{
		ended: func() error { return context.Cause(ctx) }, cancel: cancel, body: resp.Body, lines: json.NewDecoder(resp.Body),
	}, nil
}

// Close ends the watch.
func (s *Stream) Close() error {
	s.cancel()
	return s.body.Close()
}

// Next waits for the next event. The error is io.EOF if the server ended the watch
// gracefully. It is an *apierrors.StatusError if the server reported one, like "too
// old resource version" (apierrors.IsResourceExpired, IsGone). After any error the
// stream cannot be used.
func (s *Stream) Next() (Event, error) {
	s.line.Type, s.line.Object = "", s.line.Object[:0]
	switch err := s.lines.Decode(&s.line); {
	case errors.Is(err, io.EOF):
		return Event{}, io.EOF
	case err != nil:
		return Event{}, transportError(s.ended(), err)
	}
	var err error
	out := Event{Type: s.line.Type}
	switch out.Type {
	case watch.Error:
		var status metav1.Status
		if err = json.Unmarshal(s.line.Object, &status); err == nil {
			return Event{}, &apierrors.StatusError{ErrStatus: status}
		}
	case watch.Bookmark:
		out.Object, err = s.kept(s.line.Object, nil)
	default:
		if out.Object, err = s.kept(s.line.Object, s.keep); err == nil && out.Object == nil {
			out, err = s.bookmark()
		}
	}
	if err != nil {
		return Event{}, fmt.Errorf("read watch event: %w", err)
	}
	return out, nil
}

// bookmark replaces the last event by its resourceVersion.
func (s *Stream) bookmark() (Event, error) {
	h, err := headOf(s.line.Object)
	if err != nil {
		return Event{}, err
	}
	var version string
	err = h.field("resourceVersion", &version)
	out := Event{Type: watch.Bookmark, Object: &Object{Object: map[string]any{}}}
	out.Object.SetResourceVersion(version)
	return out, err
}

package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Lists are decoded while they arrive, object by object, in one buffer
// (docs/adr/0011-lists-as-streams.md): other users can create many and large objects
// that a selector selects, and these must not take memory. A Filter says which
// objects are decoded.

// Filter reports whether an object of a list or a watch is decoded. nil: all are.
type Filter func(Head) bool

// Head is the beginning of an object, from which a Filter decides. It is valid
// during the call.
type Head struct {
	Namespace, Name string
	metadata        []byte
}

// headOf reads the head of an object that was not decoded.
func headOf(object []byte) (h Head, err error) {
	err = members(object, func(name string, value []byte) (bool, error) {
		if name != "metadata" {
			return true, nil
		}
		h.metadata = value
		return false, members(value, func(name string, value []byte) (_ bool, err error) {
			switch name {
			case "name":
				h.Name, err = unquote(value)
			case "namespace":
				h.Namespace, err = unquote(value)
			}
			return h.Name == "" || h.Namespace == "", err
		})
	})
	return h, err
}

// field decodes one field of the metadata into out, if it is there.
func (h Head) field(field string, out any) error {
	return members(h.metadata, func(name string, value []byte) (bool, error) {
		if name != field {
			return true, nil
		}
		return false, utiljson.Unmarshal(value, out)
	})
}

// HasController reports whether a controller owns the object.
func (h Head) HasController() bool {
	var owners []metav1.OwnerReference
	if h.field("ownerReferences", &owners) != nil {
		return false
	}
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller })
}

// ManagedFields returns the record of the object's writers; nil if it cannot be decoded.
func (h Head) ManagedFields() []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	if h.field("managedFields", &out) != nil {
		return nil
	}
	return out
}

// listing is one list.
type listing struct {
	query  url.Values
	accept string
	keep   Filter
	whole  bool // it is requested as a whole, not page by page
	out    List
	page   page
	scan   scanner // of the last page; its buffer is reused
	decoder
}

// page contains the metadata of a page.
type page struct {
	apiVersion, kind string
	metadata         struct {
		Continue        string `json:"continue"`
		ResourceVersion string `json:"resourceVersion"`
	}
	objects int // that arrived
}

func (c *Client) list(ctx context.Context, r Resource, namespace string, l listing) (List, error) {
	path := r.Path(namespace, "")
	list := path + " " + l.accept
	for began := time.Now(); ; l.query.Set("continue", l.page.metadata.Continue) {
		l.page = page{}
		first, size, sent := len(l.out.Objects), c.pages.size(list), time.Now()
		if !l.whole {
			l.query.Set("limit", strconv.Itoa(size))
		}
		request := Request{Verb: http.MethodGet, Path: path, Query: l.query, Accept: l.accept}
		if err := c.stream(ctx, request, l.read); err != nil {
			c.pages.failed(list, size, l.page.objects, err)
			return List{}, fmt.Errorf("list %s: %w", r.Name, err)
		}
		c.pages.arrived(list, size, time.Since(sent))
		l.name(l.out.Objects[first:])
		l.out.Version = l.page.metadata.ResourceVersion // each page repeats the first one's
		if l.page.metadata.Continue == "" {
			c.pages.ended(list, time.Since(began))
			return l.out, nil
		}
	}
}

// read reads one page.
func (l *listing) read(in io.Reader) error {
	s := &l.scan
	s.reset(in)
	return s.members(func(name string) (bool, error) {
		if name == "items" {
			return true, s.each(func() error { return l.item(s) })
		}
		value, err := s.value()
		if err != nil {
			return false, err
		}
		switch name {
		case "apiVersion":
			l.page.apiVersion, err = unquote(value)
		case "kind":
			l.page.kind, err = unquote(value)
		case "metadata":
			err = utiljson.Unmarshal(value, &l.page.metadata)
		}
		return true, err
	})
}

// item reads one object of a page.
func (l *listing) item(s *scanner) error {
	raw, err := s.value()
	if err != nil {
		return err
	}
	l.page.objects++
	obj, err := l.kept(raw, l.keep)
	if err == nil && obj != nil {
		l.out.Objects = append(l.out.Objects, obj)
	}
	return err
}

// name gives objects the kind of their page. In most lists only the list itself carries
// apiVersion and kind.
func (l *listing) name(objects []*Object) {
	for _, obj := range objects {
		if obj.GetKind() == "" {
			obj.SetAPIVersion(l.page.apiVersion)
			obj.SetKind(strings.TrimSuffix(l.page.kind, "List"))
		}
	}
}

package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/watch"
)

// values are JSON texts of every form.
var values = []string{
	`{}`, `[]`, `""`, `"a"`, `"\""`, `"\\"`, `"a\\\"]}"`, `12`, `-1.5e3`, `true`, `null`, `{"a":{"b":["]","}",{}]},"c":"\\"}`, `[1,[2,"3"],{"a":null}]`,
}

// A value arrives in whatever parts the network makes of it.
func TestScanner_value(t *testing.T) {
	long := `"` + strings.Repeat(`x\"`, firstBuffer) + `"`
	for _, v := range slices.Concat(values, []string{long}) {
		for _, in := range []io.Reader{strings.NewReader(v + " ,"), iotest.OneByteReader(strings.NewReader(v + ",1")), strings.NewReader("\n\t" + v + "}")} {
			s := &scanner{in: in}
			got, err := s.value()
			if err != nil || string(got) != v {
				t.Errorf("got %q, %v, want %q", got, err, v)
			}
			if _, err := s.next(); err != nil {
				t.Errorf("after %q: %v", v, err)
			}
		}
		if len(v) > 1 && v[0] != '-' && v[0] != '1' {
			if got, err := (&scanner{in: strings.NewReader(v[:len(v)-1])}).value(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("cut off: got %q, %v", got, err)
			}
		}
	}
}

func TestMembers(t *testing.T) {
	text := `{"a":1 , "\u0062" : {"a":2},"c":null}`
	got := map[string]string{}
	err := members([]byte(text), func(name string, value []byte) (bool, error) {
		got[name] = string(value)
		return name != "b", nil
	})
	if want := map[string]string{"a": "1", "b": `{"a":2}`}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1 "b":2}`, `{1:2}`, `{null:1}`} {
		if err := members([]byte(text), func(string, []byte) (bool, error) { return true, nil }); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// FuzzMembers compares what is read with what encoding/json reads.
func FuzzMembers(f *testing.F) {
	for _, v := range values {
		f.Add([]byte(`{"a":` + v + `,"b":` + v + `}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := map[string]json.RawMessage{}
		err := members(text, func(name string, value []byte) (bool, error) {
			got[name] = slices.Clone(value)
			return true, nil
		})
		var want map[string]any
		if json.Unmarshal(text, &want) != nil || want == nil {
			return // it accepts more than JSON
		}
		have := map[string]any{}
		for name, value := range got {
			var v any
			if err := json.Unmarshal(value, &v); err != nil {
				t.Fatalf("%q: %v", value, err)
			}
			have[name] = v
		}
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("got %v, %v, want %v", have, err, want)
		}
	})
}

const (
	pageOne = `{"kind":"ThingList","apiVersion":"x.test/v1","metadata":{"resourceVersion":"9","continue":"more"},"items":[
{"metadata":{"name":"a","namespace":"n","ownerReferences":[{"name":"o","controller":true}],"managedFields":[{"manager":"m"}]},"n":9007199254740993},
{"spec":{"metadata":{"name":"z"}},"metadata":{"labels":{"name":"y"},"name":"b\u003c","namespace":"n"}}]}`
	pageTwo = `{"items":[{"kind":"Other","apiVersion":"o/v1","metadata":{"name":"c"}}],"kind":"ThingList","apiVersion":"x.test/v1","metadata":{"resourceVersion":"9"}}`
)

func answerPages(w http.ResponseWriter, req *http.Request) {
	if req.URL.Query().Get("continue") == "" {
		_, _ = io.WriteString(w, pageOne)
	} else {
		_, _ = io.WriteString(w, pageTwo)
	}
}

func TestList_stream(t *testing.T) {
	names := func(list List) (out []string) {
		for _, o := range list.Objects {
			out = append(out, o.GetAPIVersion()+" "+o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
		}
		return out
	}
	t.Run("all pages", func(t *testing.T) {
		list, err := newClient(t, answerPages).List(t.Context(), things, "a=b", Full, nil)
		want := []string{"x.test/v1 Thing n/a", "x.test/v1 Thing n/b<", "o/v1 Other /c"}
		if got := names(list); err != nil || !slices.Equal(got, want) || list.Version != "9" {
			t.Fatalf("got %q, %q, %v, want %q", got, list.Version, err, want)
		}
		if n := list.Objects[0].Object["n"]; n != int64(9007199254740993) {
			t.Errorf("got %v, want the number as it is", n)
		}
	})
	t.Run("what the filter drops is not decoded", func(t *testing.T) {
		var seen []string
		list, err := newClient(t, answerPages).List(t.Context(), things, "a=b", Metadata, func(h Head) bool {
			seen = append(seen, h.Namespace+"/"+h.Name)
			if managers := h.ManagedFields(); h.HasController() != (h.Name == "a") || len(managers) == 1 != (h.Name == "a") {
				t.Errorf("%s: got controller %t, writers %v", h.Name, h.HasController(), managers)
			}
			return h.Name == "c"
		})
		if want := []string{"n/a", "n/b<", "/c"}; !slices.Equal(seen, want) {
			t.Errorf("the filter got %q, want %q", seen, want)
		}
		if got := names(list); err != nil || !slices.Equal(got, []string{"o/v1 Other /c"}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	for name, text := range map[string]string{
		"no list": `[]`, "no JSON": `<html>`, "cut off": pageTwo[:len(pageTwo)-9], "items that are no objects": `{"items":["a"]}`,
		"empty": ``, "a name that is no text": `{"items":[{"metadata":{"name":1}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
			if list, err := c.List(t.Context(), things, "a=b", Full, func(Head) bool { return true }); err == nil {
				t.Errorf("got %v, want an error", list)
			}
		})
	}
	t.Run("no items", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":null,"metadata":{"resourceVersion":"9"}}`)
		})
		if list, err := c.List(t.Context(), things, "a=b", Full, nil); err != nil || len(list.Objects) != 0 || list.Version != "9" {
			t.Errorf("got %v, %v", list, err)
		}
	})
	t.Run("a body that ends early is no answer", func(t *testing.T) {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			_, _ = io.WriteString(w, pageOne)
		})
		_, err := c.List(t.Context(), things, "a=b", Full, nil)
		if _, ok := errors.AsType[*TransportError](err); !ok {
			t.Errorf("got %v, want a TransportError", err)
		}
	})
}

// An event of an object that the filter drops only moves the watch on.
func TestWatch_filter(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"T","metadata":{"name":"theirs","namespace":"n","resourceVersion":"8"}}}
{"type":"ADDED","object":{"kind":"T","metadata":{"name":"ours","namespace":"n","resourceVersion":"9"}}}`)
	})
	s, err := c.WatchMetadata(t.Context(), things, "", nil, func(h Head) bool { return h.Name == "ours" })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if e, err := s.Next(); err != nil || e.Type != watch.Bookmark || e.Object.GetResourceVersion() != "8" || e.Object.GetName() != "" {
		t.Errorf("got %+v, %v, want a bookmark of 8", e, err)
	}
	if e, err := s.Next(); err != nil || e.Type != watch.Added || e.Object.GetName() != "ours" {
		t.Errorf("got %+v, %v", e, err)
	}
}

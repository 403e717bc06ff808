package strict

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"
)

// What a file becomes is the same in YAML and JSON, and each value has its line.
func TestRead(t *testing.T) {
	for file, text := range map[string]string{
		"x.yaml": "a: 1\nb:\n- x\n- null\n",
		"x.json": "{\"a\": 1,\n\"b\":\n[\"x\",\nnull]}",
	} {
		var p Problems
		documents := Read(file, []byte(text), &p)
		if p.Err() != nil || len(documents) != 1 {
			t.Fatalf("%s: got %v, %v", file, documents, p.Err())
		}
		root := documents[0].Root
		if b := root.Get("b"); b == nil || b.Kind != Sequence || len(b.Items) != 2 || b.Items[0].Line != 3 || b.Items[1].Value != nil {
			t.Errorf("%s: got %+v", file, b)
		}
		if a := root.Get("a"); a == nil || a.Value != int64(1) || a.Line != 1 {
			t.Errorf("%s: got %+v", file, a)
		}
		if root.Get("c") != nil {
			t.Errorf("%s: there is no c", file)
		}
	}
}

// Problems are sorted, and no message has a value.
func TestRead_problems(t *testing.T) {
	var p Problems
	p.Add(Place{File: "z.yaml", Line: 9}, "last")
	for file, text := range map[string]string{"b.yaml": "a: 1\na: 2\n", "a.json": "{", "c.yaml": "x: \xff"} {
		if got := Read(file, []byte(text), &p); file != "b.yaml" && len(got) > 0 {
			t.Errorf("%s: got %v", file, got)
		}
	}
	err, is := errors.AsType[*LoadError](p.Err())
	if !is || p.Count() != 4 {
		t.Fatalf("got %v", p.Err())
	}
	want := []string{"a.json:1: not valid JSON", `b.yaml:2: duplicate key "a", first at line 1`, "c.yaml:1: is not valid UTF-8", "z.yaml:9: last"}
	for i, problem := range err.Problems {
		if !strings.HasPrefix(problem.Error(), want[i]) {
			t.Errorf("got %q, want %q", problem, want[i])
		}
	}
}

func TestOpen(t *testing.T) {
	files := fstest.MapFS{"small": {Data: []byte("x")}, "large": {Data: make([]byte, MaxFileSize+1)}}
	if data, err := Open(files, "small"); err != nil || string(data) != "x" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := Open(files, "large"); err == nil || err.Error() != "is larger than 10 MiB; split it into several files" {
		t.Errorf("got %v", err)
	}
	if _, err := Open(files, "missing"); err == nil || Reason(err).Error() != "file does not exist" {
		t.Errorf("got %v", err)
	}
}

// TestNode_Plain_sharesTexts: strings that occur again, as keys or values, are one in memory.
func TestNode_Plain_sharesTexts(t *testing.T) {
	texts := Texts{}
	long := strings.Repeat("x", maxText+1)
	plain := func(text string) map[string]any {
		out, _ := (&Node{
			Kind: Mapping, Keys: []*Node{{Kind: Scalar, Value: strings.Clone("verb")}},
			Items: []*Node{{Kind: Sequence, Items: []*Node{{Kind: Scalar, Value: strings.Clone("verb")}, {Kind: Scalar, Value: text}}}},
		}).Plain(texts).(map[string]any)
		return out
	}
	at := func(text any) *byte {
		s, _ := text.(string)
		return unsafe.StringData(s)
	}
	first := plain(long)
	for range 2 {
		for key, value := range plain(strings.Clone(long)) {
			list, _ := value.([]any)
			if key != "verb" || len(list) != 2 || list[0] != "verb" || list[1] != long {
				t.Fatalf("got %q: %q", key, list)
			}
			if at(key) != at(list[0]) || !slices.ContainsFunc(slices.Collect(maps.Keys(first)), func(k string) bool { return at(k) == at(key) }) {
				t.Error("the strings are not shared")
			}
		}
	}
	if len(texts) != 1 {
		t.Errorf("%d strings are shared, want none that is long", len(texts))
	}
}

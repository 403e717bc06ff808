package strict

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type shelf struct {
	Kind  string        `field:"kind" required:"set it to Shelf" want:"Shelf"`
	Label string        `field:"label" required:"" variables:""`
	Books []book        `field:"books"`
	Tags  []string      `field:"tags" variables:""`
	Owner *person       `field:"owner"`
	Size  int           `field:"size" range:"1 9"`
	Wait  time.Duration `field:"waitSeconds" range:"0 60"`
	Limit time.Duration `field:"limit"`
	Open  bool          `field:"open"`
	Raw   *Node         `field:"raw"`
	Ours  string        // no field of the file
}

type book struct {
	Title string `field:"title" required:""`
	Note  string `field:"note" empty:""`
}

type person struct {
	Name string `field:"name" required:""`
}

// decode returns what a text becomes, with the size 5 unless it says otherwise, and its problems.
func decode(t *testing.T, text string) (shelf, Fields, *Problems) {
	t.Helper()
	p := &Problems{}
	documents := Read("x.yaml", []byte(text), p)
	if len(documents) != 1 || p.Count() > 0 {
		t.Fatalf("got %v, %v", documents, p.Err())
	}
	out := shelf{Size: 5, Ours: "kept"}
	d := Decoder{Problems: p, Variables: func(text string) []string {
		if strings.Contains(text, "$") {
			return []string{"has a variable"}
		}
		return nil
	}}
	f, _ := d.Decode(documents[0], "shelf", &out)
	return out, f, p
}

func TestDecode(t *testing.T) {
	text := "kind: Shelf\nlabel: a\nbooks:\n- {title: x, note: \"\"}\n- {title: y}\ntags: [b, \"\"]\nowner: {name: c}\nwaitSeconds: 3\nlimit: 1m\nopen: true\nraw: 1\n"
	got, _, p := decode(t, text)
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	want := shelf{
		Kind: "Shelf", Label: "a", Books: []book{{Title: "x"}, {Title: "y"}}, Tags: []string{"b", ""}, Owner: &person{"c"},
		Size: 5, Wait: 3 * time.Second, Limit: time.Minute, Open: true, Raw: got.Raw, Ours: "kept",
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Raw == nil || got.Raw.Value != int64(1) {
		t.Errorf("got %+v, -want +got:\n%s", got.Raw, diff)
	}
}

// All problems are reported at once, each with the path of its field and its line.
func TestDecode_problems(t *testing.T) {
	for text, want := range map[string]string{
		"- a": "x.yaml:1: a shelf must be a mapping",
		"{}":  "x.yaml:1: kind is missing; set it to Shelf\nx.yaml:1: label is missing",
		"kind: Self\nlabel: 5\nOurs: x\nbooks:\n- title: \"\"\n  pages: 3\n- {note: 5}\n- x\n": `x.yaml:1: kind must be Shelf
x.yaml:2: label must be a string that is not empty; put it in quotes if it is a number or a word like true
x.yaml:3: unknown field "Ours"; known are kind, label, books, tags, owner, size, waitSeconds, limit, open, raw
x.yaml:5: books[0].title must be a string that is not empty; put it in quotes if it is a number or a word like true
x.yaml:6: unknown field "books[0].pages"; known are title, note
x.yaml:7: books[1].title is missing
x.yaml:7: books[1].note must be a string; put it in quotes if it is a number or a word like true
x.yaml:8: books[2] must be a mapping`,
		"kind: Shelf\nlabel: \"a\\0\"\nbooks: {}\ntags:\n- a$\n- 5\nowner: x\nsize: 10\nwaitSeconds: 61\nlimit: 5\nopen: 1\n": `x.yaml:2: label has a NUL character
x.yaml:3: books must be a list of items with title and note
x.yaml:5: tags[0]: has a variable
x.yaml:6: tags[1] must be a string; put it in quotes if it is a number or a word like true
x.yaml:7: owner must be a mapping
x.yaml:8: size must be a whole number from 1 to 9
x.yaml:9: waitSeconds must be a whole number from 0 to 60
x.yaml:10: limit must be a duration above 0 and up to 24h, with a unit, like 30s or 1m30s
x.yaml:11: open must be true or false`,
		"kind: Shelf\nlabel: a\ntags: x\nsize: 1.5\nlimit: 0s\n": `x.yaml:3: tags must be a list of strings
x.yaml:4: size must be a whole number from 1 to 9
x.yaml:5: limit must be a duration above 0 and up to 24h, with a unit, like 30s or 1m30s`,
	} {
		_, _, p := decode(t, text)
		if diff := cmp.Diff(want, p.Err().Error()); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

func TestFields(t *testing.T) {
	_, f, p := decode(t, "kind: Shelf\nlabel: a\nowner:\n  name: x\nsize: 1\n")
	if got := f.OneOf("content", "books", "owner"); got != "owner" || f.Has("books") || f.In("books").Has("title") {
		t.Errorf("got %q", got)
	}
	f.OneOf("content", "books", "tags")
	f.OneOf("content", "books", "owner", "size")
	f.In("owner").OneOf("number", "age")
	f.In("owner").Add("name", ": %s", "too short")
	f.In("owner").Add("age", "is unknown")
	want := `x.yaml:1: the shelf has no content; set one of books, tags
x.yaml:4: owner has no number; set one of age
x.yaml:4: owner.name: too short
x.yaml:4: owner.age is unknown
x.yaml:5: the shelf has owner and size; set one content only`
	if diff := cmp.Diff(want, p.Err().Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

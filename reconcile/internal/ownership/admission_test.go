package ownership

import (
	"slices"
	"testing"
)

func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		name, want, live string
		changed          []string
	}{
		{"nothing", `{"data":{"x":"one"}}`, `{"data":{"x":"one","y":"theirs"}}`, nil},
		{"a string", `{"data":{"x":"one"}}`, `{"data":{"x":"theirs"}}`, []string{".data.x"}},
		{"a key that was removed", `{"data":{"x":"one"}}`, `{"data":{}}`, []string{".data.x"}},
		{"a label and an annotation", `{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`, `{"metadata":{"labels":{"a":"x"},"annotations":{}}}`, []string{".metadata.annotations.c", ".metadata.labels.a"}},
		{"a boolean", `{"spec":{"a":false}}`, `{"spec":{"a":true}}`, []string{".spec.a"}},
		{"a number", `{"value":5}`, `{"value":6}`, []string{".value"}},
		{"a field of an item with a name", `{"c":[{"name":"a","image":"x"}]}`, `{"c":[{"name":"injected","image":"y"},{"name":"a","image":"z"}]}`, []string{".c[0].image"}},
		{"an item of a list", `{"verbs":["get","list"]}`, `{"verbs":["get","watch"]}`, []string{".verbs[1]"}},
		{"an item that was removed", `{"verbs":["get","list"]}`, `{"verbs":["get"]}`, []string{".verbs[1]"}},
		{"more than a few", `{"data":{"a":"1","b":"1","c":"1","d":"1","e":"1","f":"1"}}`, `{"data":{"a":"2","b":"2","c":"2","d":"2","e":"2","f":"2"}}`, []string{".data.a", ".data.b", ".data.c", ".data.d", ".data.e"}},

		{"a quantity", `{"cpu":"1000m","memory":"1024Mi","n":2}`, `{"cpu":"1","memory":"1Gi","n":"2"}`, nil},
		{"another quantity", `{"cpu":"1000m"}`, `{"cpu":"2"}`, []string{".cpu"}},
		{"a duration, a time, an address, a prefix", `{"d":"90s","t":"2026-01-01T01:00:00+01:00","i":"2001:db8:0::1","p":"10.0.0.7/8"}`, `{"d":"1m30s","t":"2026-01-01T00:00:00Z","i":"2001:db8::1","p":"10.0.0.0/8"}`, nil},
		{"base64 in lines", `{"caBundle":"b25l\ndHdv"}`, `{"caBundle":"b25ldHdv"}`, nil},
		{"what the server fills in", `{"spec":{"clusterIP":"","replicas":0,"a":null}}`, `{"spec":{"clusterIP":"10.0.0.1","replicas":1,"a":"b"}}`, nil},
		{"what the server does not store", `{"globalDefault":false,"spec":{"old":"x"}}`, `{"spec":{}}`, nil},
		{"a list in another order", `{"verbs":["get","list"]}`, `{"verbs":["list","get"]}`, nil},
		{"items of others", `{"c":[{"name":"a"}],"f":["x"]}`, `{"c":[{"name":"b"},{"name":"a"}],"f":["y","x"]}`, nil},
		{"a status", `{"status":{"a":"b"}}`, `{"status":{"a":"c"}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Changed(mustObject(t, tt.want), mustObject(t, tt.live)); !slices.Equal(got, tt.changed) {
				t.Errorf("got %q, want %q", got, tt.changed)
			}
		})
	}
}

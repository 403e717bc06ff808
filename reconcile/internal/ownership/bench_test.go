package ownership

import (
	"fmt"
	"testing"

	"github.com/lockstep-dev/lockstep/internal/kube"
)

// thousand returns a thousand objects with twenty fields of data, as the API
// server returns them after their creation, and their manifests.
func thousand(b *testing.B) (want, live []*kube.Object) {
	b.Helper()
	const (
		stamp = `"annotations":{"lockstep.dev/content-epoch":"1","lockstep.dev/form":"x","lockstep.dev/min-apiserver-release":"0.0.0","lockstep.dev/release":"1.0.0"}`
		owned = `{"f:metadata":{"f:annotations":{".":{},"f:lockstep.dev/content-epoch":{},"f:lockstep.dev/form":{},"f:lockstep.dev/min-apiserver-release":{},"f:lockstep.dev/release":{}},"f:labels":{".":{},"f:applyset.kubernetes.io/part-of":{}}},"f:data":{%s}}`
	)
	data, fields := "", ""
	for i := range 20 {
		if i > 0 {
			data, fields = data+",", fields+","
		}
		data += fmt.Sprintf(`"key-%d":"value %d"`, i, i)
		fields += fmt.Sprintf(`"f:key-%d":{}`, i)
	}
	for i := range 1000 {
		manifest := fmt.Sprintf(`"name":"o-%d","namespace":"n","labels":{"applyset.kubernetes.io/part-of":"s"},%s`, i, stamp)
		record := fmt.Sprintf(`"managedFields":[{"manager":"lockstep","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":`+owned+`}]`, fields)
		want = append(want, mustObject(b, fmt.Sprintf(`{"metadata":{%s},"data":{%s}}`, manifest, data)))
		live = append(live, mustObject(b, fmt.Sprintf(`{"metadata":{%s,%s},"data":{%s}}`, manifest, record, data)))
	}
	return want, live
}

// BenchmarkThousand asks each question of a thousand objects whose fields we own
// by creation (docs/adr/0009-field-sets-of-our-own.md).
func BenchmarkThousand(b *testing.B) {
	want, live := thousand(b)
	own := make([]string, len(live))
	for i := range live {
		own[i] = Own(live[i])
	}
	nothing := mustObject(b, `{"metadata":{"name":"n"}}`)
	for name, question := range map[string]func(i int){
		"InPlace":         func(i int) { InPlace(want[i], live[i]) },
		"MadeByUs":        func(i int) { MadeByUs(live[i]) },
		"Own":             func(i int) { Own(live[i]) },
		"TakeOver":        func(i int) { TakeOver(want[i], live[i]) },
		"TakeOver needed": func(i int) { TakeOver(nothing, live[i]) },
		"WithoutDropped":  func(i int) { WithoutDropped(live[i], nothing, live[i]) },
		"ChangeSince":     func(i int) { ChangeSince(own[i], live[i]) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range live {
					question(i)
				}
			}
		})
	}
}

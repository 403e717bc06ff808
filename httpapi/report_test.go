package httpapi

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/reconcile/report"
)

// TestReportLosesNoField changes one field of report.Report after the other.
// Each must change /status: a field that does not was forgotten on its way.
func TestReportLosesNoField(t *testing.T) {
	full := reflect.New(reflect.TypeFor[report.Report]()).Elem()
	n := 0
	eachField(full, "Report", func(_ string, field reflect.Value) { n++; change(t, field, n) })
	render := func() []byte { return marshal(NewReport(Snapshot{Reconcile: full.Interface().(report.Report)})) }
	before := render()
	eachField(full, "Report", func(path string, field reflect.Value) {
		kept := reflect.New(field.Type()).Elem()
		kept.Set(field)
		n++
		change(t, field, n)
		if bytes.Equal(render(), before) {
			t.Errorf("%s does not reach /status", path)
		}
		field.Set(kept)
	})
}

// eachField calls do for each field that holds no others. Lists are given one
// element.
func eachField(v reflect.Value, path string, do func(path string, field reflect.Value)) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, do)
		}
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		eachField(v.Index(0), path+"[0]", do)
	default:
		do(path, v)
	}
}

// change sets a field to a value of its own for each n. A bool is inverted.
func change(t *testing.T, field reflect.Value, n int) {
	t.Helper()
	switch value := field.Addr().Interface().(type) {
	case *string:
		*value = fmt.Sprintf("text %d", n)
	case *int:
		*value = n
	case *int64:
		*value = int64(n)
	case *bool:
		*value = !*value
	case *time.Time:
		*value = epochTime.Add(time.Duration(n) * time.Second)
	case *time.Duration:
		*value = time.Duration(n) * time.Second
	default:
		t.Fatalf("a field of type %s: tell this test how to change it", field.Type())
	}
}

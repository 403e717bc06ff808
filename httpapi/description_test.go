package httpapi

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lockstep-dev/lockstep/report"
)

// TestDescriptionHasEveryField: each field of a reported value is in openapi.yaml, with its type, and each property
// there is a field.
func TestDescriptionHasEveryField(t *testing.T) {
	schemas := loadContract(t).doc.Components.Schemas
	for name, value := range map[string]reflect.Type{
		"Status": reflect.TypeFor[report.Status](), "Leader": reflect.TypeFor[report.Leader](), "HistoryEntry": reflect.TypeFor[report.Entry](),
		"Version": reflect.TypeFor[versionReport](), "Problem": reflect.TypeFor[report.Problem](),
	} {
		for _, problem := range differences(name, value, schemas[name]) {
			t.Error(problem)
		}
	}
}

// differences compares a type with its schema.
func differences(path string, value reflect.Type, ref *openapi3.SchemaRef) []string {
	if ref == nil || ref.Value == nil {
		return []string{path + ": openapi.yaml has no such field"}
	}
	schema := ref.Value
	if value.Kind() == reflect.Pointer { // null, or an object
		if len(schema.OneOf) != 2 || !schema.OneOf[0].Value.Type.Is("null") {
			return []string{path + ": may be null, and openapi.yaml does not say so"}
		}
		return differences(path, value.Elem(), schema.OneOf[1])
	}
	kind := kindOf(value)
	if !slices.Contains(schema.Type.Slice(), kind) {
		return []string{path + ": is of type " + kind + ", not " + strings.Join(schema.Type.Slice(), ", ")}
	}
	if nullable := slices.Contains(schema.Type.Slice(), "null"); nullable != (value == reflect.TypeFor[report.Timestamp]()) {
		return []string{path + ": a time may be null, and nothing else"}
	}
	switch kind {
	case "array":
		return differences(path+"[]", value.Elem(), schema.Items)
	case "object":
		return objectDifferences(path, value, schema)
	}
	return nil
}

func objectDifferences(path string, value reflect.Type, schema *openapi3.Schema) (out []string) {
	described := map[string]bool{}
	for _, field := range reflect.VisibleFields(value) {
		name := field.Tag.Get("json")
		if field.Anonymous {
			continue // its fields are visible too
		}
		if name == "" || strings.Contains(name, ",") || name == "-" {
			out = append(out, path+"."+field.Name+": needs a JSON name, and is always present")
			continue
		}
		described[name] = true
		out = append(out, differences(path+"."+name, field.Type, schema.Properties[name])...)
		if !slices.Contains(schema.Required, name) {
			out = append(out, path+"."+name+": openapi.yaml does not require it")
		}
	}
	for name := range schema.Properties {
		if !described[name] {
			out = append(out, path+"."+name+": only openapi.yaml has it")
		}
	}
	return out
}

// kindOf is the JSON type of a value.
func kindOf(value reflect.Type) string {
	if value == reflect.TypeFor[report.Timestamp]() {
		return "string"
	}
	switch value.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	default:
		return value.Kind().String()
	}
}

// TestDescriptionCanDiffer shows that each kind of difference is found.
func TestDescriptionCanDiffer(t *testing.T) {
	type object struct {
		A string                `json:"a"`
		B report.List[struct{}] `json:"b"`
		C *struct{}             `json:"c"`
	}
	text := &openapi3.Schema{Type: &openapi3.Types{"string"}}
	same := func() *openapi3.Schema {
		array := &openapi3.Schema{Type: &openapi3.Types{"array"}, Items: openapi3.NewSchemaRef("", openapi3.NewObjectSchema())}
		null := &openapi3.Schema{Type: &openapi3.Types{"null"}}
		out := openapi3.NewObjectSchema().WithProperty("a", text).WithProperty("b", array).
			WithProperty("c", openapi3.NewOneOfSchema(null, openapi3.NewObjectSchema()))
		out.Required = []string{"a", "b", "c"}
		return out
	}
	for want, change := range map[string]func(*openapi3.Schema){
		"":                                      func(*openapi3.Schema) {},
		"x.d: only openapi.yaml has it":         func(s *openapi3.Schema) { s.WithProperty("d", text) },
		"x.a: openapi.yaml has no such field":   func(s *openapi3.Schema) { delete(s.Properties, "a") },
		"x.a: openapi.yaml does not require it": func(s *openapi3.Schema) { s.Required = []string{"b", "c"} },
		"x.b: is of type array, not string":     func(s *openapi3.Schema) { s.WithProperty("b", text) },
		"x.b[].e: only openapi.yaml has it": func(s *openapi3.Schema) {
			s.Properties["b"].Value.Items.Value.WithProperty("e", text)
		},
		"x.c: may be null, and openapi.yaml does not say so": func(s *openapi3.Schema) { s.WithProperty("c", openapi3.NewObjectSchema()) },
		"x.a: a time may be null, and nothing else": func(s *openapi3.Schema) {
			s.WithProperty("a", &openapi3.Schema{Type: &openapi3.Types{"string", "null"}})
		},
	} {
		schema := same()
		change(schema)
		if got := strings.Join(differences("x", reflect.TypeFor[object](), openapi3.NewSchemaRef("", schema)), "; "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/reconcile/bundle"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// TestSchema: bundle.Validate refuses a custom resource whose CRD is in the bundle exactly if an API server does.
func TestSchema(t *testing.T) {
	r := newRig(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("bundle", "testdata", "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	group := r.ns + ".test" // a deleted CRD takes its time
	definition, err := yaml.YAMLToJSON([]byte(strings.ReplaceAll(read("crd.yaml"), "example.com", group)))
	if err != nil {
		t.Fatal(err)
	}
	r.create(crds, "", string(definition))
	t.Cleanup(func() {
		if err := r.api.Resource(crds).Delete(context.WithoutCancel(t.Context()), "widgets."+group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	widgets := r.api.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
	cluster.Await(t, "the API of the CRD", func(ctx context.Context) error {
		_, err := widgets.List(ctx, metav1.ListOptions{})
		return err
	})
	for line := range strings.Lines(read("specs")) {
		spec, problems, _ := strings.Cut(strings.TrimSpace(line), " |")
		dir := t.TempDir()
		r.writeFile(dir, "bundle.yaml", "apiVersion: lockstep.dev/v1\nkind: Bundle\nmetadata: {name: test}\nrelease: 1.0.0\n")
		r.writeFile(dir, "widget.yaml", "apiVersion: "+group+"/v1\nkind: Widget\nmetadata: {name: w}\nspec: "+spec+"\n")
		b, err := bundle.Load(dir) // without the CRD, so without its schema
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(b.Objects[0])
		if err != nil {
			t.Fatal(err)
		}
		force := true
		_, err = widgets.Patch(t.Context(), "w", types.ApplyPatchType, text, metav1.PatchOptions{
			FieldManager: "test", Force: &force, DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore, // as we apply
		})
		if refused := fmt.Sprint(err); (err != nil) != (problems != "") {
			t.Errorf("%s: the API server says %s, and Validate%s", spec, refused, problems)
		}
	}
}

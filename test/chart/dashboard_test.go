package chart

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestDashboard: the types that Grafana publishes accept the dashboard, with its panels and queries, and refuse a field that is
// misspelt or of another type. test/alerts parses its queries, and test/e2e answers them.
func TestDashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile("../../deploy/grafana/lockstep.json")
	if err != nil {
		t.Fatal(err)
	}
	problems := func(text string) string {
		var d dashboard.Dashboard //nolint:staticcheck // what Grafana provisions; its successor is an API's

		// These return errors without text.
		err := errors.Join(d.UnmarshalJSONStrict([]byte(text)), d.Validate())
		return strings.TrimSpace(fmt.Sprint(err))
	}
	if got := problems(string(text)); got != "" && got != fmt.Sprint(nil) {
		t.Errorf("Grafana does not accept it: %s", got)
	}
	for _, wrong := range [][2]string{
		{`"gridPos":`, `"gridPosition":`}, {`"refresh": "30s"`, `"refresh": 30`}, {`"expr":`, `"expression":`}, {`"h": 8`, `"h": "8"`},
	} {
		if forged := strings.Replace(string(text), wrong[0], wrong[1], 1); forged == string(text) || problems(forged) == problems(string(text)) {
			t.Errorf("it is accepted with %s in place of %s", wrong[1], wrong[0])
		}
	}
}

package reach

import (
	"testing"

	"github.com/lockstep-dev/lockstep/cmd/sidecar/internal/console"
)

// The command for the turns of a rollback reaches the sidecar as the environment of this machine does.
func TestServerOptions(t *testing.T) {
	variables := map[string]string{}
	p := console.Program{LookupEnv: func(name string) (string, bool) { v, found := variables[name]; return v, found }}
	if got := ServerOptions(p); got != "" {
		t.Errorf("got %q without variables", got)
	}
	variables["LOCKSTEP_SERVER"], variables["LOCKSTEP_CERTIFICATE_AUTHORITY"] = "https://10.0.0.1:8086", "/etc/a b.crt"
	if got, want := ServerOptions(p), " --certificate-authority='/etc/a b.crt' --server=https://10.0.0.1:8086"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	variables["LOCKSTEP_SERVER"] = "http://127.0.0.1:8086"
	if got, want := ServerOptions(p), " --certificate-authority='/etc/a b.crt'"; got != want {
		t.Errorf("got %q for the default, want %q", got, want)
	}
}

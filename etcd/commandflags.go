package etcd

import (
	"strings"

	"github.com/lockstep-dev/lockstep/internal/shell"
)

// CommandFlags returns the flags with which a command of this program reaches the same keys, with a
// leading space, quoted for a shell. dataDir is the data directory of this machine's member, which
// contains the servers and the certificates; empty: there is none.
func CommandFlags(cfg Config, dataDir string) string {
	var b strings.Builder
	add := func(flag, value string) {
		if value != "" {
			b.WriteString(" --" + flag + "=" + shell.Quote(value))
		}
	}
	if dataDir != "" {
		add("data-dir", dataDir)
		cfg = Config{Prefix: cfg.Prefix}
	}
	add("etcd-servers", strings.Join(cfg.Endpoints, ","))
	if strings.TrimSuffix(cfg.Prefix, "/") != defaultPrefix {
		add("etcd-prefix", cfg.Prefix)
	}
	add("etcd-cafile", cfg.CAFile)
	add("etcd-certfile", cfg.CertFile)
	add("etcd-keyfile", cfg.KeyFile)
	return b.String()
}

// defaultPrefix is the default of the flag --etcd-prefix, without its last slash.
const defaultPrefix = "/lockstep"

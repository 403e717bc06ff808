package lockstep

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-dev/lockstep/httpapi"
	"github.com/lockstep-dev/lockstep/internal/app"
	"github.com/lockstep-dev/lockstep/internal/cluster/datadir"
)

func TestOptions_zeroMeansDefault(t *testing.T) {
	for name, opts := range map[string]Options{
		"zero":     {Kubeconfig: "k", Bundle: BuiltinBundle},
		"defaults": func() Options { o := Defaults(); o.Kubeconfig, o.Bundle = "k", BuiltinBundle; return o }(),
	} {
		cfg, err := opts.config()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if cfg.NodeID == "" || cfg.LeaseTTL != 10*time.Second || cfg.Etcd.Prefix != "/lockstep/" || cfg.ApplyConcurrency != 16 || cfg.Listen != opts.Listen {
			t.Errorf("%s: got %+v", name, cfg)
		}
	}
	if got := Defaults().Listen; got != "127.0.0.1:8086" {
		t.Errorf("Defaults: got Listen %q", got)
	}
}

// TestOptions_reachTheWiring changes one field after the other and looks for the
// change in what the sidecar is wired from.
func TestOptions_reachTheWiring(t *testing.T) {
	base := Options{
		NodeID: "a", Kubeconfig: "k", Bundle: BuiltinBundle, Listen: "127.0.0.1:1", LeaseTTL: 4 * time.Second, ExpireDeadNodes: time.Hour, TLSCertFile: "c", TLSKeyFile: "c", Etcd: External{CertFile: "c", KeyFile: "c"},
	}
	before, err := base.config()
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[Options]().NumField() {
		field := reflect.TypeFor[Options]().Field(i).Name
		if field == "InsecureListen" {
			continue // only a permission
		}
		changed, before := base, before
		switch field {
		case "Etcd": // TestEtcd_reachesTheWiring
			continue
		case "NodeAddress":
			changed.Etcd, changed.NodeAddress = Embedded{}, "127.0.0.1"
			if before, err = changed.config(); err != nil {
				t.Fatal(err)
			}
		}
		if field == "APIServerAddress" {
			changed.KubernetesService = true
			if before, err = changed.config(); err != nil {
				t.Fatal(err)
			}
		}
		switch field {
		case "AuthenticationKubeconfig", "AuthorizationAlwaysAllowPaths", "TokenCacheTTL", "AuthorizedCacheTTL", "UnauthorizedCacheTTL":
			changed.AuthorizationKubeconfig, changed.ClientCAFile = "k", "c"
			if before, err = changed.config(); err != nil {
				t.Fatal(err)
			}
		case "AuthorizationKubeconfig":
			changed.ClientCAFile = "c"
		}
		set(t, reflect.ValueOf(&changed).Elem().Field(i), field)
		after, err := changed.config()
		if err != nil {
			t.Errorf("%s: %v", field, err)
		}
		if cmp.Equal(before, after, cmpopts.EquateComparable(&prometheus.Registry{})) {
			t.Errorf("Options.%s is lost", field)
		}
	}
}

// TestEtcd_reachesTheWiring does the same with each field of an etcd.
func TestEtcd_reachesTheWiring(t *testing.T) {
	base := Options{NodeID: "a", NodeAddress: "127.0.0.1", Services: "s", Kubeconfig: "k", Bundle: BuiltinBundle}
	config := func(e reflect.Value) app.Config {
		t.Helper()
		opts := base
		opts.Etcd, _ = reflect.TypeAssert[Etcd](e)
		cfg, err := opts.config()
		if err != nil {
			t.Error(err)
		}
		return cfg
	}
	for _, from := range []Etcd{External{CertFile: "c", KeyFile: "c"}, Embedded{Join: "https://h:1", Token: "t"}, Embedded{Join: "https://h:1", TokenFile: "t"}} {
		was := reflect.ValueOf(from)
		for i := range was.NumField() {
			is, field := reflect.New(was.Type()).Elem(), was.Type().Field(i).Name
			is.Set(was)
			if field == "Token" || field == "TokenFile" {
				if is.Field(i).IsZero() {
					continue // the other one is set
				}
			}
			set(t, is.Field(i), field)
			if cmp.Equal(config(was), config(is)) {
				t.Errorf("%T.%s is lost", from, field)
			}
		}
	}
}

// set gives a field of Options a valid value that is not its default.
func set(t *testing.T, v reflect.Value, field string) {
	t.Helper()
	valid := map[string]string{
		"AdvertiseURL": "http://h:1", "EtcdPrefix": "/x/", "Listen": "127.0.0.1:2", "NodeID": "b",
		"NodeAddress": "127.0.0.3", "Join": "https://h:2",
	}
	switch v.Interface().(type) {
	case string:
		value := valid[field]
		if value == "" {
			value = "file"
		}
		v.SetString(value)
	case bool:
		v.SetBool(true)
	case int:
		v.SetInt(3)
	case int64:
		v.SetInt(64 << 20)
	case time.Duration:
		v.SetInt(int64(40 * time.Second))
	case []string:
		value := []string{"http://h:1"}
		if field == "APIServerAddress" {
			value = []string{"10.0.0.1"}
		}
		if field == "AuthorizationAlwaysAllowPaths" {
			value = []string{"/leader"}
		}
		v.Set(reflect.ValueOf(value))
	case []httpapi.Flag:
		v.Set(reflect.ValueOf([]httpapi.Flag{{Name: "f"}}))
	case nil: // an interface
		v.Set(reflect.ValueOf(prometheus.NewRegistry()))
	default:
		t.Errorf("Options.%s: this test knows no value for its type", field)
	}
}

func TestOptions_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string // empty: valid
	}{
		"nothing set":             {func(*Options) {}, ""},
		"no bundle":               {func(o *Options) { o.Bundle = "" }, "Options.Bundle (--bundle): required: the directory with bundle.yaml"},
		"no kubeconfig":           {func(o *Options) { o.Kubeconfig = "" }, "Options.Kubeconfig (--kubeconfig): required: a kubeconfig file for this node's kube-apiserver"},
		"a bad node ID":           {func(o *Options) { o.NodeID = "Not_a_subdomain" }, `Options.NodeID (--node-id): "Not_a_subdomain": must be like a host name, such as cp-1: lower-case letters, digits`},
		"a bad URL":               {func(o *Options) { o.AdvertiseURL = "host:1" }, `Options.AdvertiseURL (--advertise-url): "host:1": must be http://HOST:PORT or https://HOST:PORT`},
		"an etcd without scheme":  {func(o *Options) { o.Etcd = External{Servers: []string{"h:1"}} }, `Options.Etcd.Servers (--etcd-servers): "h:1": must be`},
		"an etcd with a password": {func(o *Options) { o.Etcd = External{Servers: []string{"https://u:secret@h:1"}} }, `Options.Etcd.Servers (--etcd-servers): ...@h:1: must not have a user or a password; use a client certificate`},
		"a prefix without a name": {func(o *Options) { o.EtcdPrefix = "//" }, `Options.EtcdPrefix (--etcd-prefix): "//": must begin with a slash and contain more than slashes`},
		"a certificate, no key":   {func(o *Options) { o.Etcd = External{CertFile: "c"} }, "Options.Etcd.CertFile (--etcd-certfile): has no key: set --etcd-keyfile too"},
		"open to all, no TLS":     {func(o *Options) { o.Listen = "0.0.0.0:0" }, "or allow it with --insecure-listen"},
		"open to all, allowed":    {func(o *Options) { o.Listen, o.InsecureListen = "0.0.0.0:0", true }, ""},
		"TLS, no listener":        {func(o *Options) { o.TLSCertFile, o.TLSKeyFile = "c", "k" }, "Options.TLSCertFile (--tls-cert-file): has no effect without a listener: set --listen too"},
		"client CA, no TLS":       {func(o *Options) { o.ClientCAFile = "c" }, "Options.ClientCAFile (--client-ca-file): needs TLS: set --tls-cert-file too"},
		"tokens for all":          {func(o *Options) { o.AuthenticationKubeconfig = "k" }, "Options.AuthenticationKubeconfig (--authentication-kubeconfig): every ServiceAccount of the cluster could read everything"},
		"rights without names":    {func(o *Options) { o.AuthorizationKubeconfig = "k" }, "set --authentication-kubeconfig for tokens, or --client-ca-file"},
		"tokens in plain text": {func(o *Options) {
			o.AuthenticationKubeconfig, o.AuthorizationKubeconfig, o.Listen, o.InsecureListen = "k", "k", "0.0.0.0:0", true
		}, "tokens would cross the network unencrypted"},
		"tokens on this machine": {func(o *Options) { o.AuthenticationKubeconfig, o.AuthorizationKubeconfig = "k", "k" }, ""},
		"rights, and all may read": {func(o *Options) {
			o.AuthenticationKubeconfig, o.AuthorizationKubeconfig, o.AnonymousStatus = "k", "k", true
		}, "--anonymous-status): contradicts"},
		"a bad path": {func(o *Options) {
			o.AuthenticationKubeconfig, o.AuthorizationKubeconfig, o.AuthorizationAlwaysAllowPaths = "k", "k", []string{"/a*b"}
		}, `"/a*b": must begin with a slash`},
		"a cache for a day":         {func(o *Options) { o.TokenCacheTTL = 24 * time.Hour }, "must be more than 0 and at most 10m0s"},
		"a short lease":             {func(o *Options) { o.LeaseTTL = 2 * time.Second }, "Options.LeaseTTL (--lease-ttl): 2s: must be whole seconds, at least 3s"},
		"half a second":             {func(o *Options) { o.LeaseTTL = 3500 * time.Millisecond }, "Options.LeaseTTL (--lease-ttl): 3.5s: must be whole seconds"},
		"expiry too soon":           {func(o *Options) { o.ExpireDeadNodes = 40 * time.Second }, "Options.ExpireDeadNodes (--expire-dead-nodes): 40s: must be 0 (never) or more than 40s"},
		"expiry just late enough":   {func(o *Options) { o.ExpireDeadNodes = 41 * time.Second }, ""},
		"a negative expiry":         {func(o *Options) { o.ExpireDeadNodes = -1 }, "Options.ExpireDeadNodes"},
		"ephemeral, no expiry":      {func(o *Options) { o.Ephemeral = true }, "Options.Ephemeral (--ephemeral): needs --expire-dead-nodes, for nodes that are killed: set it to more than 40s (four times --lease-ttl), like --expire-dead-nodes=2m"},
		"ephemeral, a member":       {func(o *Options) { o.Ephemeral, o.ExpireDeadNodes, o.Etcd = true, time.Minute, Embedded{} }, "Options.Ephemeral (--ephemeral): cannot be used with --etcd=embedded"},
		"ephemeral":                 {func(o *Options) { o.Ephemeral, o.ExpireDeadNodes = true, time.Minute }, ""},
		"a negative delay":          {func(o *Options) { o.ShutdownDelay = -1 }, "Options.ShutdownDelay"},
		"a negative concurrency":    {func(o *Options) { o.ApplyConcurrency = -1 }, "Options.ApplyConcurrency"},
		"a long election timeout":   {func(o *Options) { o.EtcdElectionTimeout = time.Minute }, "Options.EtcdElectionTimeout"},
		"a negative yield":          {func(o *Options) { o.LeaderYieldAfter = -1 }, "Options.LeaderYieldAfter"},
		"a resync every moment":     {func(o *Options) { o.ResyncInterval = 1 }, "Options.ResyncInterval"},
		"a listener without port":   {func(o *Options) { o.Listen = "localhost" }, `Options.Listen (--listen): "localhost": must be HOST:PORT`},
		"a key, no certificate":     {func(o *Options) { o.Etcd = External{KeyFile: "k"} }, "Options.Etcd.KeyFile (--etcd-keyfile): has no certificate"},
		"a TLS key, no cert":        {func(o *Options) { o.TLSKeyFile = "k" }, "Options.TLSKeyFile (--tls-private-key-file): has no certificate"},
		"a pointer to an etcd":      {func(o *Options) { o.Etcd = &Embedded{} }, `Options.Etcd (--etcd): *lockstep.Embedded: must be lockstep.External{...} or lockstep.Embedded{...}, and no pointer`},
		"an address of no member":   {func(o *Options) { o.NodeAddress = "127.0.0.1" }, "Options.NodeAddress (--node-address): has no effect with an etcd that runs elsewhere: set --etcd=embedded too"},
		"embedded":                  {func(o *Options) { o.Etcd = Embedded{} }, ""},
		"one port twice":            {func(o *Options) { o.Etcd = Embedded{PeerPort: 8088} }, "Options.Etcd.ClientPort (--client-port): 8088: is the port of --peer-port too"},
		"no port":                   {func(o *Options) { o.Etcd = Embedded{JoinPort: -1} }, "Options.Etcd.JoinPort (--join-port): -1: must be from 1 to 65535"},
		"another machine's address": {func(o *Options) { o.Etcd, o.NodeAddress = Embedded{}, "192.0.2.1" }, `Options.NodeAddress (--node-address): "192.0.2.1": is not an address of this machine`},
		"a name as address":         {func(o *Options) { o.Etcd, o.NodeAddress = Embedded{}, "localhost" }, `Options.NodeAddress (--node-address): "localhost": must be an IP address`},
		"every address":             {func(o *Options) { o.Etcd, o.NodeAddress = Embedded{}, "0.0.0.0" }, "must be an address at which other nodes reach this one"},
		"a join without a token":    {func(o *Options) { o.Etcd = Embedded{Join: "https://h:1"} }, "Options.Etcd.Token (--token): required to join"},
		"a token without a join":    {func(o *Options) { o.Etcd = Embedded{TokenFile: "f"} }, "Options.Etcd.Join (--join): required with a token"},
		"two tokens":                {func(o *Options) { o.Etcd = Embedded{Join: "https://h:1", Token: "t", TokenFile: "f"} }, "Options.Etcd.TokenFile (--token-file): set either"},
		"a join without a port":     {func(o *Options) { o.Etcd = Embedded{Join: "https://h", Token: "t"} }, `Options.Etcd.Join (--join): "https://h": must be https://HOST:PORT`},
		"the Service":               {func(o *Options) { o.KubernetesService = true }, ""},
		"both families":             {func(o *Options) { o.KubernetesService, o.APIServerAddress = true, []string{"10.0.0.1", "fd00::1"} }, ""},
		"an address, no Service":    {func(o *Options) { o.APIServerAddress = []string{"10.0.0.1"} }, "Options.APIServerAddress (--apiserver-address): has no effect without the Service kubernetes: set --kubernetes-service too"},
		"an address on loopback":    {func(o *Options) { o.KubernetesService, o.APIServerAddress = true, []string{"127.0.0.1"} }, `Options.APIServerAddress (--apiserver-address): "127.0.0.1": must be an address at which pods`},
		"an address with a port":    {func(o *Options) { o.KubernetesService, o.APIServerAddress = true, []string{"10.0.0.1:6443"} }, `Options.APIServerAddress (--apiserver-address): "10.0.0.1:6443": must be an IP address`},
		"one family twice":          {func(o *Options) { o.KubernetesService, o.APIServerAddress = true, []string{"10.0.0.1", "10.0.0.2"} }, "are of one family"},
		"three addresses": {func(o *Options) {
			o.KubernetesService, o.APIServerAddress = true, []string{"10.0.0.1", "fd00::1", "10.0.0.2"}
		}, "3 addresses"},
		"a TLS certificate, no key": {func(o *Options) { o.Listen, o.TLSCertFile = "127.0.0.1:0", "c" }, "Options.TLSCertFile (--tls-cert-file): has no key"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Kubeconfig: "k", Bundle: "b"}
			tc.change(&o)
			err := o.Validate()
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "Options.") || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			if _, newErr := New(o, nil); newErr == nil || newErr.Error() != err.Error() {
				t.Errorf("New: got %v, want %v", newErr, err)
			}
		})
	}
}

// A machine may have started before its network: an address with which a sidecar has run here is
// waited for, and no mistake.
func TestOptions_Validate_ranHere(t *testing.T) {
	dir := t.TempDir()
	data, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	if err := data.WriteMarker(datadir.Marker{
		Cluster: datadir.NewClusterID(), Node: "a", Address: "192.0.2.201", PeerPort: 8089, ClientPort: 8088, JoinPort: 8087,
		Intent: datadir.Create, Phase: datadir.Begun,
	}); err != nil {
		t.Fatal(err)
	}
	for address, refused := range map[string]bool{"192.0.2.201": false, "192.0.2.202": true} {
		o := Options{Kubeconfig: "k", Bundle: "b", Etcd: Embedded{}, DataDir: dir, NodeAddress: address}
		if err := o.Validate(); (err != nil) != refused {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// Everything that is wrong is reported at once, by fields that exist.
func TestOptions_ValidateReportsAll(t *testing.T) {
	err := Options{NodeID: "_", LeaseTTL: 1, ApplyConcurrency: -1}.Validate()
	var fields []string
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		field, _, _ := strings.Cut(strings.TrimPrefix(line, "Options."), " ")
		if _, found := reflect.TypeFor[Options]().FieldByName(field); !found {
			t.Errorf("%q names no field", line)
		}
		fields = append(fields, field)
	}
	if want := []string{"NodeID", "Kubeconfig", "Bundle", "LeaseTTL", "ApplyConcurrency"}; !cmp.Equal(fields, want) {
		t.Errorf("got %v, want %v", fields, want)
	}
	option, ok := errors.AsType[*OptionError](err)
	if !ok || option.Field != "NodeID" || option.Flag != "node-id" {
		t.Errorf("got %+v", option)
	}
}

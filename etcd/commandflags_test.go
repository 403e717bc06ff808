package etcd

import "testing"

func TestCommandFlags(t *testing.T) {
	for want, cfg := range map[string]Config{
		" --etcd-servers=http://a:1,http://b:2": {Endpoints: []string{"http://a:1", "http://b:2"}, Prefix: "/lockstep/"},
		" --etcd-servers=https://a:1 --etcd-prefix=/other --etcd-cafile='/my ca' --etcd-certfile=/c --etcd-keyfile='/it'\\''s'": {
			Endpoints: []string{"https://a:1"}, Prefix: "/other", CAFile: "/my ca", CertFile: "/c", KeyFile: "/it's"},
	} {
		if got := CommandFlags(cfg, ""); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	member := Config{Endpoints: []string{"https://a:1"}, Prefix: "/lockstep", CAFile: "/my dir/pki/ca.crt", CertFile: "/c", KeyFile: "/k"}
	if got, want := CommandFlags(member, "/my dir"), " --data-dir='/my dir'"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

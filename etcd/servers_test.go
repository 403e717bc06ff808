package etcd_test

import (
	"testing"

	"github.com/lockstep-dev/lockstep/etcd"
)

func TestKnownFault(t *testing.T) {
	for version, faulty := range map[string]bool{
		"3.4.40": true, "3.5.0": true, "3.5.27": true, "3.5.28": false, "3.5.30": false,
		"3.6.0": true, "3.6.8": true, "3.6.9": false, "3.7.0": false, "4.0.0": false, "3.6.0-rc.1": true, "what": true,
		"3.5.28-vendor.1": false, "3.6.9-vendor.1": false, "3.6.8-vendor.1": true,
	} {
		if got := etcd.KnownFault(version) != ""; got != faulty {
			t.Errorf("%s: got %t", version, got)
		}
	}
}

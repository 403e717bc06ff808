package kubeadmnode

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/lockstep-dev/lockstep/internal/kubeadm"
)

// writeServing writes the certificate with which the sidecar serves HTTPS, and the one with which the
// commands on this node read it. A file that people replaced by their own is left alone.
func (p program) writeServing(f kubeadmFlags, own kubeadmFiles, authority kubeadm.Authority, ca []byte) error {
	addresses := localAddresses()
	if u, err := url.Parse(f.apiserverURL); err == nil && u.Hostname() != "" {
		addresses = append(addresses, u.Hostname())
	}
	cert, key, until, err := authority.Serving(f.nodeID, addresses, p.Now())
	if err != nil {
		return err
	}
	wrote, err := p.writePair(own, pair{kubeadm.ServingCert, kubeadm.ServingKey, cert, key})
	if err != nil {
		return err
	}
	if cert, key, _, err = authority.Client(f.nodeID, p.Now()); err != nil {
		return err
	}
	if _, err := p.writePair(own, pair{kubeadm.ClientCert, kubeadm.ClientKey, cert, key}); err != nil {
		return err
	}
	if err := own.write(kubeadm.CAFile, ca, modeFile); err != nil || !wrote {
		return err
	}
	fmt.Fprintf(p.Stdout, "wrote %s: a certificate of the cluster's CA, valid until %s\n", filepath.Join(f.dir, kubeadm.ServingCert), until.UTC().Format(time.DateOnly))
	return nil
}

// pair is a certificate and its key, with their paths below the directory of Lockstep.
type pair struct {
	certFile, keyFile string
	cert, key         []byte
}

// writePair reports whether it wrote the two files: both or none.
func (p program) writePair(own kubeadmFiles, w pair) (bool, error) {
	for _, name := range []string{w.certFile, w.keyFile} {
		why, err := own.changed(name, nil)
		if err != nil {
			return false, err
		}
		if why != "" && !own.force {
			fmt.Fprintf(p.Stdout, "left alone %s: %s; --force overwrites it\n", filepath.Join(own.dir, name), why)
			return false, nil
		}
	}
	// The sidecar reads them every ten seconds, and keeps the previous pair while they do not fit.
	err := own.write(w.keyFile, w.key, modeSecret)
	if err == nil {
		err = own.write(w.certFile, w.cert, modeFile)
	}
	return err == nil, err
}

// servingElsewhere is an error if the files with which the sidecar serves HTTPS are missing on a node
// without the key of the CA.
func (f kubeadmFlags) servingElsewhere() error {
	for _, name := range []string{kubeadm.ServingCert, kubeadm.ServingKey, kubeadm.CAFile} {
		file := filepath.Join(f.dir, name)
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w: %s is not on this node, so put a serving certificate for %s and %s of the cluster's CA into %s and %s, and the CA into %s; or serve this machine alone: %s -- --listen=127.0.0.1:8086",
				err, f.pki("ca.key"), f.nodeID, kubeadm.ServerName, kubeadm.ServingCert, kubeadm.ServingKey, kubeadm.CAFile, f.again())
		}
	}
	return nil
}

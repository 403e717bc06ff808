package kubeadm

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/internal/nodeaddress"
)

// The files with which a sidecar serves HTTPS to other machines, below the directory of
// Lockstep. The client certificate is for the commands of sidecar on the node.
const (
	CAFile      = "ca.crt" // a copy of the cluster's
	ServingCert = "serving.crt"
	ServingKey  = "serving.key"
	ClientCert  = "client.crt"
	ClientKey   = "client.key"
)

// MonitoringDir contains the objects for the Prometheus operator, below the directory of Lockstep.
const MonitoringDir = "monitoring"

// ServerName is in the certificates of all sidecars: a Prometheus can verify that, with any
// address of the node.
const ServerName = "lockstep.kube-system.svc"

// portName is the port of the sidecar in the pod, which the PodMonitor names.
const portName = "lockstep"

// ServingArgs let other machines read health over HTTPS, and the rest as the kube-apiserver
// decides.
func ServingArgs() []string {
	return []string{
		"--listen=:" + nodeaddress.DefaultPort,
		"--tls-cert-file=" + DefaultDir + "/" + ServingCert,
		"--tls-private-key-file=" + DefaultDir + "/" + ServingKey,
		"--client-ca-file=" + DefaultDir + "/" + CAFile,
		"--authentication-kubeconfig=" + DefaultDir + "/" + KubeconfigFile,
		"--authorization-kubeconfig=" + DefaultDir + "/" + KubeconfigFile,
	}
}

// ServedFiles are the files that ServingArgs name and sidecar kubeadm renews, as the container
// sees them.
func ServedFiles() []string {
	return []string{DefaultDir + "/" + ServingCert, DefaultDir + "/" + CAFile}
}

// ChoosesListener reports whether arguments set how the sidecar serves, so that ServingArgs would
// override the user's choice.
func ChoosesListener(args []string) bool {
	own := append(ServingArgs(), "--insecure-listen", "--anonymous-status")
	return slices.ContainsFunc(args, func(arg string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return flagName(o) == flagName(arg) })
	})
}

// WithoutListener returns the settings without arguments that say how the sidecar serves.
func (s Settings) WithoutListener() Settings {
	s.Args = slices.DeleteFunc(slices.Clone(s.Args), func(arg string) bool { return ChoosesListener([]string{arg}) })
	return s
}

// FirstArgs returns the flags of sidecar run with which a first call on another node has these settings.
func (s Settings) FirstArgs() []string {
	serves := slices.DeleteFunc(slices.Clone(s.Args), func(arg string) bool { return !ChoosesListener([]string{arg}) })
	standard := ServingArgs() // what a first call chooses by itself
	slices.Sort(serves)
	slices.Sort(standard)
	switch {
	case slices.Equal(serves, standard):
		return s.WithoutListener().Args
	case len(serves) == 0: // plain, as in the embedded patch: it must be said
		return append([]string{"--listen=" + cmp.Or(flagOf(s.RunArgs(), "listen"), nodeaddress.DefaultListen)}, s.Args...)
	}
	return s.Args
}

// WantsPlain reports whether arguments ask for a listener without TLS.
func WantsPlain(args []string) bool {
	host, _, err := net.SplitHostPort(flagOf(args, "listen"))
	loopback := err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
	return (loopback || flagOf(args, "insecure-listen") == "true") && flagOf(args, "tls-cert-file") == ""
}

// ServesHTTPS reports whether the sidecar serves HTTPS with the certificate that sidecar kubeadm
// makes.
func (s Settings) ServesHTTPS() bool {
	return flagOf(s.RunArgs(), "tls-cert-file") == DefaultDir+"/"+ServingCert
}

// portLines name the port of the sidecar, where a Prometheus may reach it.
func portLines(args []string) string {
	host, port, err := net.SplitHostPort(flagOf(args, "listen"))
	if ip := net.ParseIP(host); err != nil || host == "localhost" || ip.IsLoopback() || flagOf(args, "tls-cert-file") == "" {
		return ""
	}
	return fmt.Sprintf("    ports:\n    - {name: %s, containerPort: %s}\n", portName, port)
}

// Serving returns a new serving certificate for the sidecar of a node, with its key, and until
// when it is valid.
func (a Authority) Serving(node string, addresses []string, now time.Time) (cert, key []byte, until time.Time, err error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "lockstep"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{node, "localhost", ServerName},
	}
	for _, address := range append([]string{"127.0.0.1", "::1"}, addresses...) {
		ip := net.ParseIP(address)
		if ip != nil && !slices.ContainsFunc(template.IPAddresses, ip.Equal) {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	return a.issue(template, now)
}

// Client returns a new client certificate for the user of a node.
func (a Authority) Client(node string, now time.Time) (cert, key []byte, until time.Time, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: User(node), Organization: []string{Group}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
}

// issue signs a certificate for a new key.
func (a Authority) issue(template *x509.Certificate, now time.Time) (cert, private []byte, until time.Time, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, until, err
	}
	until = now.Add(validity)
	if a.cert.NotAfter.Before(until) {
		until = a.cert.NotAfter
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), until
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, until, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, until, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), until, nil
}

package attack

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func lengthOf(body []byte) string { return strconv.Itoa(len(body)) }

// ServerFiles writes a certificate for an address, and its key. It is its own CA.
func ServerFiles(dir, address string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(address)},
		IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: address},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(file, kind string, b []byte) error {
		return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
	}
	return cert, key, errors.Join(write(cert, "CERTIFICATE", der), write(key, "EC PRIVATE KEY", raw))
}

// Bodies returns requests to join that no member grants: the first is as large as one may be, and as
// expensive.
func Bodies() ([][]byte, error) {
	large, err := LargeRequest()
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, csr := range [][]byte{large, []byte("x")} {
		body, err := json.Marshal(map[string]any{
			"node": "evil", "address": "10.90.0.250", "peerPort": 1, "clientPort": 2, "joinPort": 3,
			"token": map[string]any{"id": "abcdef", "secret": make([]byte, 16)}, "certificateRequest": csr,
		})
		if err != nil {
			return nil, err
		}
		out = append(out, body)
	}
	return append(out, []byte(strings.Repeat("[", 10<<10))), nil //nolint:mnd // below the limit
}

// Network is where strangers are: all its addresses are of this machine, after Prepare.
const Network = "10.91.0.0/16"

// Addresses returns n of them.
func Addresses(n int) (out []net.IP) {
	for i := range n {
		out = append(out, net.IPv4(10, 91, byte(1+i/250), byte(1+i%250))) //nolint:mnd // within Network
	}
	return out
}

// Prepare makes the network namespace of this process one with the addresses of strangers, and own.
func Prepare(own ...string) error {
	lines := []string{"link set lo up", "route add local " + Network + " dev lo"}
	for _, a := range own {
		lines = append(lines, "addr add "+a+"/32 dev lo")
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	return cmd.Run()
}

// NewTarget returns a target without ports, with all that strangers need.
func NewTarget(addresses int) (Target, error) {
	chain, err := Chain()
	if err != nil {
		return Target{}, err
	}
	large, err := LargeKey()
	if err != nil {
		return Target{}, err
	}
	bodies, err := Bodies()
	return Target{From: Addresses(addresses), Chain: chain, LargeKey: large, Bodies: bodies}, err
}

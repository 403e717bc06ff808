package support

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Certificate describes one certificate. For a file without any, Problem is set.
type Certificate struct {
	File    string `json:"file"`
	Problem string `json:"problem,omitempty"`

	Subject      string    `json:"subject,omitempty"`
	Issuer       string    `json:"issuer,omitempty"`
	SerialNumber string    `json:"serialNumber,omitempty"`
	NotBefore    time.Time `json:"notBefore,omitzero"`
	NotAfter     time.Time `json:"notAfter,omitzero"`
	CA           bool      `json:"ca"`
	Names        []string  `json:"names,omitempty"` // DNS names and IP addresses
	SHA256       string    `json:"sha256,omitempty"`
	PEM          string    `json:"pem,omitempty"`
}

// maxCertificates bounds a file with certificates.
const maxCertificates = 1 << 20

// Source is a place of certificates: a file, or a part of another file.
type Source struct {
	Name    string
	Content []byte // nil: the file Name is read
}

// Certificates describes the certificates of all sources as JSON. If a source also contains a key, the key is left
// out.
func Certificates(sources []Source) ([]byte, error) {
	out := []Certificate{}
	for _, s := range sources {
		if s.Content == nil {
			content, err := readFile(s.Name)
			if err != nil {
				out = append(out, Certificate{File: s.Name, Problem: err.Error()})
				continue
			}
			s.Content = content
		}
		out = append(out, certificatesIn(s.Name, s.Content)...)
	}
	return json.MarshalIndent(out, "", "  ")
}

// certificatesIn returns at least one element.
func certificatesIn(name string, content []byte) (out []Certificate) {
	for len(content) > 0 {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			out = append(out, Certificate{File: name, Problem: err.Error()})
			continue
		}
		sum := sha256.Sum256(cert.Raw)
		c := Certificate{
			File: name, Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), SerialNumber: cert.SerialNumber.Text(16),
			NotBefore: cert.NotBefore.UTC(), NotAfter: cert.NotAfter.UTC(), CA: cert.IsCA, Names: cert.DNSNames,
			SHA256: hex.EncodeToString(sum[:]),
			PEM:    string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})), // without headers
		}
		for _, ip := range cert.IPAddresses {
			c.Names = append(c.Names, ip.String())
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		out = append(out, Certificate{File: name, Problem: "it has no certificate in the form of PEM"})
	}
	return out
}

// readFile reads a file of at most maxCertificates bytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(f, maxCertificates+1))
	if err == nil && len(out) > maxCertificates {
		err = fmt.Errorf("%s has more than %d bytes", name, maxCertificates)
	}
	return out, errors.Join(err, f.Close())
}

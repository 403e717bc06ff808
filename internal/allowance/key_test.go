package allowance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"math/big"
	"testing"
	"time"
)

// A key has a price above what its check costs a processor of 2020, and a usual one costs a load balancer little.
func TestKeyPrice(t *testing.T) {
	modulus := func(bits uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), bits-1) }
	for _, tt := range []struct {
		name        string
		key         any
		least, most time.Duration
	}{
		{"RSA, 2048 bits", &rsa.PublicKey{N: modulus(2048), E: 65537}, 35 * time.Microsecond, 300 * time.Microsecond},
		{"RSA, 4096 bits", &rsa.PublicKey{N: modulus(4096), E: 65537}, 355 * time.Microsecond, time.Millisecond},
		{"RSA, 8192 bits", &rsa.PublicKey{N: modulus(8192), E: 65537}, 1530 * time.Microsecond, 3 * time.Millisecond},
		{"RSA, as large as it may be", &rsa.PublicKey{N: modulus(8192), E: 1<<31 - 1}, 4060 * time.Microsecond, 10 * time.Millisecond},
		{"P-256", &ecdsa.PublicKey{Curve: elliptic.P256()}, 55 * time.Microsecond, 150 * time.Microsecond},
		{"P-384", &ecdsa.PublicKey{Curve: elliptic.P384()}, 457 * time.Microsecond, time.Millisecond},
		{"P-521", &ecdsa.PublicKey{Curve: elliptic.P521()}, 1360 * time.Microsecond, 3 * time.Millisecond},
		{"another kind", "", 50 * time.Microsecond, 150 * time.Microsecond},
	} {
		if got := KeyPrice(tt.key); got < tt.least || got > tt.most {
			t.Errorf("%s: got %s, want %s to %s", tt.name, got, tt.least, tt.most)
		}
	}
}

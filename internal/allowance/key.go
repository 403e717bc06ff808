package allowance

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"math/bits"
	"time"
)

// KeyPrice is the price of the check of one signature with a client's key. It grows with the square of
// an RSA key's length, and with its exponent; and with the length of an elliptic curve.
func KeyPrice(public any) time.Duration {
	const usual = 100 * time.Microsecond // of P-256, Ed25519 and 2048 bits
	switch key := public.(type) {
	case *rsa.PublicKey:
		const kilobit, perSquare = 1024, 1300 * time.Nanosecond
		size, steps := key.N.BitLen()/kilobit+1, bits.Len(uint(key.E))+bits.OnesCount(uint(key.E))
		return max(usual, time.Duration(size*size*steps)*perSquare)
	case *ecdsa.PublicKey:
		const p256, growth = 256, 4
		price := usual
		for range growth {
			price = price * time.Duration(key.Params().BitSize) / p256
		}
		return price
	}
	return usual
}

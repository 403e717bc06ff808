package allowance

import (
	"encoding/binary"
	"math"
	"net/netip"
)

// instruction is one of the classic packet filter of BSD, as Linux implements it.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// Codes of instructions, and offsets at which Linux offers more than the packet.
const (
	loadWord, loadByte = 0x20, 0x30
	toX                = 0x07
	and, shiftRight    = 0x54, 0x74
	equals, equalsX    = 0x15, 0x1d
	greater, anyBit    = 0x25, 0x45
	jump, end          = 0x05, 0x06

	ipHeader = 0xfff00000 // the packet begins with the header of TCP
	random   = 0xfffff000 + 56
)

const (
	tcpFlags, synFlag = 13, 0x02
	accept            = math.MaxUint32
	drop              = 0
)

// rules define a filter. The addresses are results of network.
type rules struct {
	held []netip.Addr
	// sample is which part of the packets that open a connection is let through, besides the
	// packets from the addresses in spared.
	sample float64
	spared []netip.Addr
}

// empty reports whether no filter is needed.
func (r rules) empty() bool { return len(r.held) == 0 && r.sample >= 1 }

// program returns the filter. Packets between two addresses of this machine pass.
func (r rules) program() []instruction {
	four, six := r.ipv4(), r.ipv6()
	return append(append([]instruction{
		{code: loadByte, k: ipHeader},
		{code: shiftRight, k: 4},
		{code: equals, jt: 1, k: 6},
		{code: jump, k: uint32(len(six))},
	}, six...), four...)
}

func verdict(k uint32) instruction { return instruction{code: end, k: k} }

func (r rules) ipv4() []instruction {
	const source, destination = ipHeader + 12, ipHeader + 16
	out := []instruction{
		{code: loadWord, k: source}, {code: and, k: 0xff000000}, {code: equals, jf: 1, k: 0x7f000000}, verdict(accept),
		{code: loadWord, k: destination}, {code: toX}, {code: loadWord, k: source}, {code: equalsX, jf: 1}, verdict(accept),
	}
	match := func(list []netip.Addr, k uint32) {
		for _, a := range list {
			if a.Is4() {
				bytes := a.As4()
				out = append(out, instruction{code: equals, jf: 1, k: binary.BigEndian.Uint32(bytes[:])}, verdict(k))
			}
		}
	}
	match(r.held, drop)
	if r.sample < 1 {
		match(r.spared, accept)
	}
	return append(out, r.sampled()...)
}

func (r rules) ipv6() []instruction {
	const source, destination, word = ipHeader + 8, ipHeader + 24, 4
	var out []instruction
	for i := range uint32(4) {
		left := uint8(4*(3-i) + 1) //nolint:gosec // at most 13: to the end of this check
		out = append(out, instruction{code: loadWord, k: destination + word*i}, instruction{code: toX},
			instruction{code: loadWord, k: source + word*i}, instruction{code: equalsX, jf: left})
	}
	out = append(out, verdict(accept))
	match := func(list []netip.Addr, k uint32) {
		for _, a := range list {
			if a.Is6() {
				bytes := a.As16()
				out = append(out,
					instruction{code: loadWord, k: source}, instruction{code: equals, jf: 3, k: binary.BigEndian.Uint32(bytes[:])},
					instruction{code: loadWord, k: source + word},
					instruction{code: equals, jf: 1, k: binary.BigEndian.Uint32(bytes[word:])},
					verdict(k))
			}
		}
	}
	match(r.held, drop)
	if r.sample < 1 {
		match(r.spared, accept)
	}
	return append(out, r.sampled()...)
}

// sampled ends a part. Only the first packet of a connection is left to chance.
func (r rules) sampled() []instruction {
	if r.sample >= 1 {
		return []instruction{verdict(accept)}
	}
	return []instruction{
		{code: loadByte, k: tcpFlags}, {code: anyBit, jf: 3, k: synFlag},
		{code: loadWord, k: random}, {code: greater, jf: 1, k: uint32(r.sample * math.MaxUint32)}, verdict(drop),
		verdict(accept),
	}
}

package allowance

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// packet is one of TCP, with its header of IP.
func packet(from, to string, flags byte) (ip, tcp []byte) {
	source, destination := netip.MustParseAddr(from).AsSlice(), netip.MustParseAddr(to).AsSlice()
	tcp = make([]byte, 20)
	tcp[13] = flags
	if len(source) == 4 {
		ip = make([]byte, 12, 40)
		ip[0] = 0x45
	} else {
		ip = make([]byte, 8, 60)
		ip[0] = 0x60
	}
	return append(append(ip, source...), destination...), tcp
}

// run interprets a program as the kernel does, for one random number.
func run(t *testing.T, program []instruction, ip, tcp []byte, chance uint32) uint32 {
	t.Helper()
	var a, x uint32
	load := func(k uint32, size int) uint32 {
		from, at := tcp, k
		switch {
		case k == random:
			return chance
		case k >= ipHeader:
			from, at = ip, k-ipHeader
		}
		if size == 1 {
			return uint32(from[at])
		}
		return binary.BigEndian.Uint32(from[at:])
	}
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		condition, branches := false, true
		switch i.code {
		case loadWord:
			a, branches = load(i.k, 4), false
		case loadByte:
			a, branches = load(i.k, 1), false
		case toX:
			x, branches = a, false
		case and:
			a, branches = a&i.k, false
		case shiftRight:
			a, branches = a>>i.k, false
		case jump:
			pc, branches = pc+int(i.k), false
		case equals:
			condition = a == i.k
		case equalsX:
			condition = a == x
		case greater:
			condition = a > i.k
		case anyBit:
			condition = a&i.k != 0
		case end:
			return i.k
		default:
			t.Fatalf("instruction %d: %+v", pc, i)
		}
		if branches && condition {
			pc += int(i.jt)
		} else if branches {
			pc += int(i.jf)
		}
	}
	t.Fatal("the program does not end with a verdict")
	return 0
}

func TestRules_program(t *testing.T) {
	addresses := func(list ...string) (out []netip.Addr) {
		for _, a := range list {
			out = append(out, network(netip.MustParseAddr(a)))
		}
		return out
	}
	many := addresses("10.0.0.2", "10.0.0.3", "fd00:0:0:2::1", "fd00:0:0:3::1")
	for i := range maxHeld - len(many) {
		many = append(many, netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}))
	}
	held := rules{held: many, sample: 1}
	sampled := rules{held: addresses("10.0.0.2", "fd00:0:0:2::1"), sample: 0.25, spared: addresses("10.0.0.4", "fd00:0:0:4::1")}
	const low, high = 1 << 29, 1 << 31 // below and above a quarter
	for _, tc := range []struct {
		name     string
		rules    rules
		from, to string
		flags    byte
		chance   uint32
		dropped  bool
	}{
		{"held off", held, "10.0.0.2", "10.0.0.1", synFlag, low, true},
		{"another one", held, "10.0.0.3", "10.0.0.1", synFlag, low, true},
		{"not held off", held, "10.0.0.4", "10.0.0.1", synFlag, high, false},
		{"this machine", held, "10.0.0.2", "10.0.0.2", synFlag, high, false},
		{"loopback", held, "127.0.0.2", "127.0.0.1", synFlag, high, false},
		{"held off, IPv6", held, "fd00:0:0:2::99", "fd00::1", synFlag, low, true},
		{"another one, IPv6", held, "fd00:0:0:3::1", "fd00::1", synFlag, low, true},
		{"not held off, IPv6", held, "fd00:0:0:4::1", "fd00::1", synFlag, high, false},
		{"this machine, IPv6", held, "fd00:0:0:2::1", "fd00:0:0:2::1", synFlag, high, false},
		{"another of its addresses, IPv6", held, "fd00:0:0:2::1", "fd00:0:0:2::2", synFlag, high, true},
		{"sampled: held off", sampled, "10.0.0.2", "10.0.0.1", synFlag, low, true},
		{"sampled: lucky", sampled, "10.0.0.3", "10.0.0.1", synFlag, low, false},
		{"sampled: unlucky", sampled, "10.0.0.3", "10.0.0.1", synFlag, high, true},
		{"sampled: an open connection", sampled, "10.0.0.3", "10.0.0.1", 0x10, high, false},
		{"sampled: has a share", sampled, "10.0.0.4", "10.0.0.1", synFlag, high, false},
		{"sampled: unlucky, IPv6", sampled, "fd00:0:0:3::1", "fd00::1", synFlag, high, true},
		{"sampled: lucky, IPv6", sampled, "fd00:0:0:3::1", "fd00::1", synFlag, low, false},
		{"sampled: has a share, IPv6", sampled, "fd00:0:0:4::9", "fd00::1", synFlag, high, false},
		{"sampled: loopback, IPv6", sampled, "::1", "::1", synFlag, high, false},
	} {
		ip, tcp := packet(tc.from, tc.to, tc.flags)
		if got := run(t, tc.rules.program(), ip, tcp, tc.chance) == drop; got != tc.dropped {
			t.Errorf("%s: dropped %t", tc.name, got)
		}
	}
	if n := len(held.program()); n > 4096 {
		t.Errorf("the program has %d instructions, the kernel takes 4096", n)
	}
}

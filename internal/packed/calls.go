package packed

// This file makes programs of amd64 smaller when they are compressed, by a twentieth. A call there has the distance
// to its target, so that each call of a function looks different. With the place of the target instead,
// and its high bytes first, they look the same. What is no call may be changed as well: Absolute and
// Relative undo each other for all content.

const (
	call   = 0xe8 // the operation; a distance of four bytes follows, the lowest first
	inCall = 4
	// within is the range of distances and places: 25 bits with a sign.
	within   = 1<<25 - 1
	negative = 1 << 24
)

// Absolute replaces the distances in calls by places.
func Absolute(program []byte) {
	change(program, func(b []byte, at uint32) {
		place := (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24) + at
		b[0], b[1], b[2], b[3] = byte(place>>16), byte(place>>8), byte(place), highest(place)
	})
}

// Relative replaces the places by distances.
func Relative(program []byte) {
	change(program, func(b []byte, at uint32) {
		distance := (uint32(b[2]) | uint32(b[1])<<8 | uint32(b[0])<<16 | uint32(b[3])<<24) - at
		b[0], b[1], b[2], b[3] = byte(distance), byte(distance>>8), byte(distance>>16), highest(distance)
	})
}

// change calls f with what follows each call, if that is within the range. f leaves it there. What
// follows is passed over in any case: whether f was called for it must not depend on what f did later.
func change(program []byte, f func(b []byte, at uint32)) {
	for i := 0; i+inCall < len(program); i++ {
		if program[i] != call {
			continue
		}
		if high := program[i+inCall]; high == 0 || high == 0xff {
			f(program[i+1:], uint32(i)) //nolint:gosec // both directions count alike
		}
		i += inCall
	}
}

// highest is the byte above 24 bits of a number within the range.
func highest(n uint32) byte {
	if n&within&negative != 0 {
		return 0xff
	}
	return 0
}

package protocol

import "fmt"

// MaxContentEpoch is the highest content epoch, in the status, in the mark and in
// stamps. Content epochs count changes of content, so no leader gets there: a
// higher one is garbage, and counts as unknown (docs/protocol.md#content-epoch).
const MaxContentEpoch = 1 << 52

// MaxEpochGap is the largest credible difference between the content epochs of the
// status and of the mark. Leaders write one after the other, and each adds one at most.
// If the difference is larger, one of them was written by hand, and only the lower one
// is credible.
const MaxEpochGap = 1 << 20

// IsContentEpoch reports whether a number can be a content epoch.
func IsContentEpoch(n int64) bool { return 1 <= n && n <= MaxContentEpoch }

// credibleEpoch returns the content epoch to count from, given the one in the status
// and the highest one in the mark; 0: unknown. It is the higher one, unless they
// are too far apart.
func credibleEpoch(status, mark int64) int64 {
	lower, higher := min(status, mark), max(status, mark)
	if lower > 0 && higher-lower > MaxEpochGap {
		return lower
	}
	return higher
}

// nextEpoch returns the content epoch after a credible one. After the highest, it
// begins again with 1: the old epochs are then too far above to be credible.
func nextEpoch(credible int64) int64 {
	if credible < 0 || credible >= MaxContentEpoch {
		return 1
	}
	return credible + 1
}

// GarbageEpoch returns which of two content epochs is not credible, for people;
// empty: both are.
func GarbageEpoch(status, mark int64) string {
	switch credible := credibleEpoch(status, mark); {
	case status == 0 || mark == 0 || max(status, mark) == credible:
		return ""
	case status > mark:
		return fmt.Sprintf("the content epoch %d in the status is not credible beside %d in the mark; leaders count from the mark", status, mark)
	}
	return fmt.Sprintf("the content epoch %d in the mark is not credible beside %d in the status; leaders count from the status", mark, status)
}

// MarkTooHigh reports whether a mark's highest content epoch is too far above the
// status's, which is the work's, to be believed. If it is, the mark counts as damaged
// in a pass over w. Without a status it returns false.
func (w Work) MarkTooHigh(highest int64) bool {
	return w.FallbackEntry != (Content{}) && highest-w.Content.Epoch > MaxEpochGap
}

// EpochTooHigh reports whether the work's content epoch is too far above the highest one
// in the mark to be credible. If it is, nothing may be written with it.
func (w Work) EpochTooHigh(highest int64) bool {
	return w.FallbackEntry != (Content{}) && highest > 0 && w.Content.Epoch-highest > MaxEpochGap
}

// Package nodeturns decides who works on a node while the others serve
// (docs/protocol-nodes.md#turns). It is pure, as package protocol is, whose fleet it reads.
// Packages fleet and internal/turns carry the decisions out.
//
// The code of each part of the specification:
//
//	#turns Judge        turns.go   may this node have a turn, and if not why
//	       NextAction   turns.go   when does a turn end
//	       JudgeCommand command.go did the command of a turn end without a word
//	       Finishes     command.go does the node's sidecar end a turn by itself
//	       JudgeWork    work.go    may the work of a turn begin
//	       OthersLeft   work.go    do the other nodes still serve before it begins
//	       MayEnd       work.go    may people say that it is done
package nodeturns

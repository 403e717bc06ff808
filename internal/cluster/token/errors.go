package token

import "errors"

// Why a node may not join with a token. The texts are for the person at the joining
// node.
var (
	// ErrUnknown is returned if there is no such token, or no longer.
	ErrUnknown = errors.New("the cluster has no such token: it was deleted, or belongs to another cluster")
	// ErrSecret is returned for a token with the ID of a stored one and another secret.
	ErrSecret = errors.New("the token's secret is wrong")
	// ErrRevoked is returned after Revoke.
	ErrRevoked = errors.New("the token was revoked")
	// ErrExpired is returned after the end of the token's lifetime.
	ErrExpired = errors.New("the token has expired")
	// ErrUsed is returned if no uses of the token are left.
	ErrUsed = errors.New("the token was used by other nodes, and has no uses left")
	// ErrOtherNode is returned if the token is for another node, or another address of it.
	ErrOtherNode = errors.New("the token is not for this node")
	// ErrOtherKey is returned if the node used the token with another key before.
	ErrOtherKey = errors.New("a node with this ID has used the token with another key")
)

package soak

import (
	"context"
	"fmt"

	"github.com/lockstep-dev/lockstep/internal/etcdtest"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

// proxiesToEtcd starts a proxy in front of each etcd member, for one client.
func (w *world) proxiesToEtcd() (out []*etcdtest.Proxy, err error) {
	for _, m := range w.cluster.Members {
		p, err := etcdtest.StartProxy(m.Addr())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func urls(ways []*etcdtest.Proxy) []string {
	var out []string
	for _, p := range ways {
		out = append(out, "http://"+p.Addr())
	}
	return out
}

// cuts are the ways to cut a connection, as seen by the side that opened it.
var cuts = []etcdtest.Cut{etcdtest.Blackhole, etcdtest.BlackholeRequests, etcdtest.BlackholeResponses, etcdtest.Reset}

// opposite is the same cut, as seen by the other side.
var opposite = map[etcdtest.Cut]etcdtest.Cut{
	etcdtest.Blackhole: etcdtest.Blackhole, etcdtest.BlackholeRequests: etcdtest.BlackholeResponses,
	etcdtest.BlackholeResponses: etcdtest.BlackholeRequests, etcdtest.Reset: etcdtest.Reset,
}

func (f fault) cut() etcdtest.Cut { return cuts[f.how%len(cuts)] }

// cutsOne reports whether a fault is of the connections to one etcd member, not to
// all of them.
func (f fault) cutsOne() bool { return f.how/len(cuts)%2 == 0 }

// isSlow reports whether a fault slows connections down instead of cutting them.
func (f fault) isSlow() bool {
	return f.kind == slowEtcd || f.kind == slowAPI || f.kind == slowStore || f.kind == slowPeers
}

// behaviour is the behaviour of the gateway, never polite.
func (f fault) behaviour() behaviour { return behaviour(1 + f.how%(nBehaviours-1)) }

// describeConnections describes the two sides of a cut or slow connection, and the fault.
func (w *world) describeConnections(f fault) string {
	who, member := nodeNames[f.node], f.member
	switch f.kind {
	case cutStore, slowStore:
		who = w.nodes[f.node].server.name
	case cutPeers, slowPeers:
		who, member = fmt.Sprintf("member %d", f.member+1), w.next(f.member)
	default:
	}
	if f.kind != cutAPI && f.kind != slowAPI {
		from := "all members"
		if f.cutsOne() {
			from = fmt.Sprintf("member %d", member+1)
		}
		who += " from " + from
	}
	if f.isSlow() {
		return fmt.Sprintf("%s, by %s", who, f.slow)
	}
	return who + ", " + []string{"both ways", "requests", "answers", "reset"}[f.how%len(cuts)]
}

// next is the member after a member.
func (w *world) next(member int) int { return (member + 1) % len(w.cluster.Members) }

// impairSidecar impairs the connections of a sidecar.
func (w *world) impairSidecar(ctx context.Context, n *node, f fault) outcome {
	switch f.kind {
	case spoilAPI:
		n.gateway.set(f.behaviour())
		pause(ctx, f.lasts)
		n.gateway.set(polite)
		return done
	case cutEtcd, slowEtcd:
		return f.impair(ctx, f.some(n.members), nil)
	default:
		return f.impair(ctx, []*etcdtest.Proxy{n.as.Load().api}, nil)
	}
}

// impairPeers impairs the connections between an etcd member and another one, or
// all others. Both members open connections: a request on the connections of one is a
// response on the connections of the other.
func (w *world) impairPeers(ctx context.Context, f fault) outcome {
	one := w.cluster.Members[f.member]
	others := []*cluster.Member{w.cluster.Members[w.next(f.member)]}
	if !f.cutsOne() {
		others = append(others, w.cluster.Members[w.next(w.next(f.member))])
	}
	var from, to []*etcdtest.Proxy
	for _, m := range others {
		from, to = append(from, one.Way(m)), append(to, m.Way(one))
	}
	f.impair(ctx, from, to)
	w.awaitMembers(ctx, w.cluster.Members)
	return done
}

// some selects the proxy of one member if the fault is of one member.
func (f fault) some(ways []*etcdtest.Proxy) []*etcdtest.Proxy {
	if f.cutsOne() {
		return ways[f.member : f.member+1]
	}
	return ways
}

// impair cuts connections or slows them down, and heals them. The other side opened the
// connections in back.
func (f fault) impair(ctx context.Context, ways, back []*etcdtest.Proxy) outcome {
	for _, p := range ways {
		f.harm(p, f.cut())
	}
	for _, p := range back {
		f.harm(p, opposite[f.cut()])
	}
	pause(ctx, f.lasts)
	for _, of := range [][]*etcdtest.Proxy{ways, back} {
		for _, p := range of {
			p.Restore()
		}
	}
	return done
}

func (f fault) harm(p *etcdtest.Proxy, cut etcdtest.Cut) {
	if f.isSlow() {
		p.Delay(f.slow)
		return
	}
	p.Cut(cut)
}

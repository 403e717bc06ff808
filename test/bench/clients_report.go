package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockstep-dev/lockstep/test/balancers"
)

// reportClients adds the requests of clients, with Lockstep and without.
func (b *bench) reportClients(with, without *clientRig) {
	second := func(d time.Duration) time.Duration { return d + time.Second }
	b.reportLeave(with)
	b.report.measured(rowAPIOut, bar{max: 2 * time.Second}, with.apiOut)
	// Without Lockstep, the two are the same.
	b.report.peer(rowAPIOut, peerNone, slices.Concat(without.apiOut, without.nodeOut)...)
	b.report.measured(rowNodeOut, bar{max: second(balancers.LeaseTTL)}, with.nodeOut)
	b.report.peer(rowNodeOut, peerNone, slices.Concat(without.apiOut, without.nodeOut)...)
	b.report.measured(rowUpgrade, bar{}, []time.Duration{with.upgrade.all})
	b.report.peer(rowUpgrade, peerNone, without.upgrade.all)
	b.reportBack(with)
	b.report.peer(rowBack, peerNone, without.back.all)
	const enough = 10_000
	for way, name := range balancers.Ways {
		got, other := with.sum(way, isUpgrade), without.sum(way, isUpgrade)
		b.report.fact("failed requests through "+name+", in upgrades and rollbacks whose nodes stop gracefully", compared(got.Failed, got, other.Failed, other),
			fmt.Sprintf("0 of %d and more", enough), got.Failed == 0 && got.Requests >= enough)
		got, other = with.sum(way, isAny), without.sum(way, isAny)
		b.report.fact("answers through "+name+" of a kube-apiserver that does not fit the objects",
			compared(got.Misfits, got, other.Misfits, other), "0", got.Misfits == 0)
	}
	b.reportRestarts(with, without)
	for _, part := range []struct {
		name          string
		with, without time.Duration
	}{
		{"that upgrade: the delay after SIGTERM, three times", 3 * clientDelay, 3 * clientDelay},
		{"that upgrade: the rest of the three stops", with.upgrade.Stop - 3*clientDelay, without.upgrade.Stop - 3*clientDelay},
		{"that upgrade: three kube-apiservers start", with.upgrade.API, without.upgrade.API},
		{"that upgrade: three sidecars start, and open their gates", with.upgrade.Gate, 0},
		{"that upgrade: from the last gate until DONE", with.upgrade.done, 0},
		{"that upgrade: all parts together", with.upgrade.sum(), without.upgrade.sum()},
	} {
		b.report.fact(part.name, short(part.with)+"; without Lockstep "+short(part.without), "", false)
	}
	b.prints = append(b.prints, func(w io.Writer) { printClients(w, with, without) })
}

func (b *bench) reportLeave(r *clientRig) {
	b.report.measured(rowGateOut, bar{p99: 100 * time.Millisecond}, r.gateOut[calmPause])
	b.report.measured(rowGateBusy, bar{}, r.gateOut[busyPause])
}

// reportBack adds the time of a rollback. It must not be longer than the upgrade before it, in whole seconds.
func (b *bench) reportBack(r *clientRig) {
	b.report.measured(rowBack, bar{}, []time.Duration{r.back.all})
	b.report.fact("the rollback beside the upgrade", short(r.back.all)+" and "+short(r.upgrade.all),
		"no longer", r.back.all.Round(time.Second) <= r.upgrade.all.Round(time.Second))
}

func (t upgradeTimes) sum() time.Duration { return t.Stop + t.API + t.Gate + t.done }

func compared(n int, of balancers.Counts, without int, ofWithout balancers.Counts) string {
	return fmt.Sprintf("%d of %d; without Lockstep %d of %d", n, of.Requests, without, ofWithout.Requests)
}

func isUpgrade(f clientFault) bool { return f.upgrade }
func isAny(clientFault) bool       { return true }

// sum adds up the requests of clients during some faults.
func (r *clientRig) sum(way int, of func(clientFault) bool) (out balancers.Counts) {
	for _, p := range r.phases {
		if of(p.clientFault) {
			out = out.Plus(p.seen[way])
		}
	}
	return out
}

func printClients(w io.Writer, rigs ...*clientRig) {
	table := [][]string{{
		"what happens", "", "took", "clients of", "requests", "failed",
		"of these, writes of unknown outcome", "answers that do not fit", "acknowledged writes lost",
	}}
	for i, side := range rigs {
		who := []string{"Lockstep", "without"}[i]
		for _, p := range side.phases {
			for way, n := range p.seen {
				table = append(table, []string{
					p.name, who, short(p.took), balancers.Ways[way], fmt.Sprint(n.Requests),
					fmt.Sprint(n.Failed), fmt.Sprint(n.Unknown), fmt.Sprint(n.Misfits), fmt.Sprint(n.Lost),
				})
			}
		}
	}
	fmt.Fprintln(w)
	writeTable(w, table)
}

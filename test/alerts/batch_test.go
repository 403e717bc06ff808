package alerts

import (
	"maps"
	"slices"
)

// batch is a world in which several situations are at the same time. promtool takes most of a second for
// a world, so situations share one if they change other series and make other alerts fire.
type batch struct {
	names   []string
	world   world
	fires   fires
	changed map[string]bool
	alone   bool
}

// batches puts each situation into the first batch that it fits into.
func batches() []batch {
	var out []batch
	for _, s := range situations {
		changed := s.changed()
		i := slices.IndexFunc(out, func(b batch) bool { return !s.alone && b.fits(s, changed) })
		if i < 0 {
			out = append(out, batch{world: healthy(), fires: fires{}, changed: map[string]bool{}, alone: s.alone})
			i = len(out) - 1
		}
		s.change(out[i].world)
		out[i].names = append(out[i].names, s.name)
		maps.Copy(out[i].changed, changed)
		maps.Copy(out[i].fires, s.fires)
	}
	return out
}

func (b batch) fits(s situation, changed map[string]bool) bool {
	for key := range changed {
		if b.changed[key] {
			return false
		}
	}
	for name := range s.fires {
		if b.fires[name] != nil {
			return false
		}
	}
	return !b.alone
}

// changed are the series of the healthy world that the situation changes.
func (s situation) changed() map[string]bool {
	before, after, out := healthy(), healthy(), map[string]bool{}
	s.change(after)
	for key, values := range before {
		if after[key] != values {
			out[key] = true
		}
	}
	return out
}

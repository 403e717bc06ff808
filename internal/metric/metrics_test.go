package metric

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSet(t *testing.T) {
	type colour string
	colours := []colour{"red", "green"}
	reg := prometheus.NewRegistry()
	in := In(reg)
	in.Gauge("a", "help").Set(Bool(true))
	in.GaugeFunc("b", "help", func() float64 { return Timestamp(time.UnixMilli(1500)) })
	in.GaugeSeries("c", "help", []string{"x", "y"}, func(add Series) { add(Timestamp(time.Time{}), "1", "2") })
	in.CounterSeries("d_total", "help", []string{"x"}, func(add Series) { add(Bool(false), "1"); add(3, "2") })
	state := Gauges(in, "e", "help", "colour", colours...)
	Choose(state, colours, "green")
	Choose(state, colours, "red")
	Counters(in, "f_total", "help", "colour", colours...).WithLabelValues("green").Inc()
	want := `# HELP a help
# TYPE a gauge
a 1
# HELP b help
# TYPE b gauge
b 1.5
# HELP c help
# TYPE c gauge
c{x="1",y="2"} 0
# HELP d_total help
# TYPE d_total counter
d_total{x="1"} 0
d_total{x="2"} 3
# HELP e help
# TYPE e gauge
e{colour="green"} 0
e{colour="red"} 1
# HELP f_total help
# TYPE f_total counter
f_total{colour="green"} 1
f_total{colour="red"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Without a registerer, metrics count all the same.
func TestIn_nil(t *testing.T) {
	in := In(nil)
	in.GaugeSeries("a", "help", nil, func(Series) {})
	c := in.Counter("b_total", "help")
	c.Inc()
	if got := testutil.ToFloat64(c); got != 1 {
		t.Errorf("got %v", got)
	}
}

package status

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// collection gives metrics to one scrape, which keeps them all until the last one is
// sent. So what is the same as in the metric before is made once: of tens of thousands
// of devices, all but their IDs.
type collection struct {
	out chan<- prometheus.Metric
	// pairs are the latest ones by label; gauge is the latest one.
	pairs map[string]*dto.LabelPair
	gauge *dto.Gauge
}

func newCollection(out chan<- prometheus.Metric) *collection {
	return &collection{out: out, pairs: map[string]*dto.LabelPair{}}
}

// give gives a value of a family, with the values of all its labels.
func (c *collection) give(f *family, value float64, labels ...string) {
	m := &metric{desc: f.desc, labels: make([]*dto.LabelPair, len(f.labels))}
	for i := range f.labels {
		m.labels[i] = c.pair(&f.labels[i], labels[i])
	}
	if f.kind == prometheus.CounterValue {
		m.counter = &dto.Counter{Value: proto.Float64(value)}
	} else {
		if c.gauge == nil || c.gauge.GetValue() != value {
			c.gauge = &dto.Gauge{Value: proto.Float64(value)}
		}
		m.gauge = c.gauge
	}
	c.out <- m
}

// pair is a label with its value.
func (c *collection) pair(name *string, value string) *dto.LabelPair {
	p := c.pairs[*name]
	if p == nil || p.GetValue() != value {
		p = &dto.LabelPair{Name: name, Value: proto.String(value)}
		c.pairs[*name] = p
	}
	return p
}

// metric implements [prometheus.Metric]; one of gauge and counter is there.
type metric struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	gauge   *dto.Gauge
	counter *dto.Counter
}

// Desc implements [prometheus.Metric].
func (m *metric) Desc() *prometheus.Desc { return m.desc }

// Write implements [prometheus.Metric].
func (m *metric) Write(out *dto.Metric) error {
	out.Label, out.Gauge, out.Counter = m.labels, m.gauge, m.counter
	return nil
}

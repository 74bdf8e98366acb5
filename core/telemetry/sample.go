package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Prefix begins the names of all metrics of backends.
const Prefix = "accelmux_device_"

// help is one for all: the contract has none, and a metric that two backends have
// must have one.
const help = "What the device's backend measured; see the backend's documentation."

// sample has the valid metrics that a backend measured at one moment. Only the labels that
// follow from a device's owner change.
type sample struct {
	backend  string
	at       time.Time
	interval time.Duration
	points   []point
	// series, devices and families are those of the points. The next sample reuses them, so
	// that nothing is checked or allocated twice: the map of series itself, which only parse
	// uses.
	series   map[identity]*series
	devices  map[string]*device
	families map[string]*family
	// unknownDevices: devices were named that are not in the inventory.
	unknownDevices bool
	complaints     []complaint
}

// fresh reports whether the sample may be shown; a nil one may not.
func (s *sample) fresh(now time.Time) bool {
	return s != nil && now.Sub(s.at) <= shownFor*s.interval
}

// identity identifies a series. labels are the backend's own, sorted.
type identity struct {
	device *device
	family *family
	labels string
}

// family is a metric's name.
type family struct {
	name    string // without Prefix
	counter bool
	desc    *prometheus.Desc
}

// device is a measured device, with the labels that all its series have.
type device struct {
	id     string
	labels atomic.Pointer[labels]
}

// labels are sorted by name; they never change.
type labels struct {
	owner Owner
	pairs []*dto.LabelPair
}

// series is one metric of one device over time.
type series struct {
	family *family
	device *device
	// own are the backend's labels, sorted.
	own []*dto.LabelPair
	// all are own and those of base; nil if there are none of its own.
	all atomic.Pointer[merged]
	// in is the newest sample that has the series, and window the newest window of the
	// budget; for parse.
	in     *sample
	window int
}

type merged struct {
	base  *labels
	pairs []*dto.LabelPair
}

// point is a value of a series; it implements [prometheus.Metric].
type point struct {
	series *series
	value  float64
}

// parse checks metrics and makes a sample of the valid ones. before is the sample before, or
// nil.
func parse(before *sample, metrics []*backendv1.Metric, r rules) *sample {
	if before == nil {
		before = &sample{series: make(map[identity]*series, min(len(metrics), maxMetrics))}
	}
	p := parser{rules: r, before: before, next: &sample{
		points:   make([]point, 0, min(len(metrics), maxMetrics)),
		series:   before.series,
		devices:  make(map[string]*device, len(before.devices)),
		families: make(map[string]*family, len(before.families)),
	}}
	for i, m := range metrics {
		if i == maxMetrics {
			p.complaints.add(tooMany, m, fmt.Errorf("the sample has %d metrics, and at most %d are allowed", len(metrics), maxMetrics))
			break
		}
		if rule, err := p.metric(m); err != nil {
			p.complaints.add(rule, m, err)
		}
	}
	if len(p.next.series) > len(p.next.points) {
		maps.DeleteFunc(p.next.series, func(_ identity, s *series) bool { return s.in != p.next })
	}
	p.next.complaints = p.complaints.list()
	return p.next
}

// parser makes one sample.
type parser struct {
	rules
	before, next *sample
	complaints   complaints
	unknown      map[string]bool
}

var errUnknown = errors.New("the inventory does not have the device, nor one that names it as its parent")

// metric adds one metric, or returns which rule it breaks.
func (p *parser) metric(m *backendv1.Metric) (rule, error) {
	if rule, err := checkValue(m); err != nil {
		return rule, err
	}
	if len(m.GetLabels()) > maxLabels {
		return badLabel, fmt.Errorf("it has %d labels, and at most %d are allowed", len(m.GetLabels()), maxLabels)
	}
	d := p.device(m.GetDeviceId())
	if d == nil {
		// It may have just been removed or added: only the second sample counts.
		if p.next.unknownDevices = true; !p.before.unknownDevices {
			return "", nil
		}
		return unknownDevice, errUnknown
	}
	f, rule, err := p.family(m.GetName())
	if err != nil {
		return rule, err
	}
	id := identity{d, f, joined(m.GetLabels())}
	s := p.next.series[id]
	switch {
	case s == nil:
		s = &series{family: f, device: d}
		if s.own, err = ownLabels(m.GetLabels()); err != nil {
			return badLabel, err
		}
	case s.in == p.next:
		return duplicate, errors.New("the sample has it twice with the same labels; the first one counts")
	}
	if b := p.budget; b != nil && s.window != b.window {
		if err := b.admit(id, len(p.next.devices)); err != nil {
			return tooNew, err
		}
		s.window = b.window
	}
	if s.in == nil {
		p.next.series[id] = s
	}
	s.in = p.next
	p.next.points = append(p.next.points, point{s, m.GetValue()})
	return "", nil
}

// device finds a device of the inventory, or returns nil.
func (p *parser) device(id string) *device {
	d := p.next.devices[id]
	switch {
	case d != nil || p.unknown[id]:
		return d
	case !p.known(id):
		if p.unknown == nil {
			p.unknown = map[string]bool{}
		}
		p.unknown[id] = true
		return nil
	}
	if d = p.before.devices[id]; d == nil {
		d = &device{id: id}
	}
	p.next.devices[id] = d
	return d
}

// family returns the family of a name, or why the name may not be used.
func (p *parser) family(name string) (*family, rule, error) {
	f := p.next.families[name]
	if f != nil {
		return f, "", nil
	}
	if f = p.before.families[name]; f == nil {
		if err := p.checkName(name); err != nil {
			return nil, badName, err
		}
		f = &family{
			name: name, counter: strings.HasSuffix(name, counterSuffix), desc: prometheus.NewDesc(Prefix+name, help, nil, nil),
		}
	}
	if len(p.next.families) == maxNames {
		return nil, tooMany, fmt.Errorf("the sample has more than %d names", maxNames)
	}
	p.next.families[name] = f
	return f, "", nil
}

// joined is a map of labels as one string; no two different maps have the same.
func joined(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		for _, part := range [...]string{name, labels[name]} {
			b.WriteString(strconv.Itoa(len(part)))
			b.WriteByte(':')
			b.WriteString(part)
		}
	}
	return b.String()
}

// ownLabels checks labels of the backend's.
func ownLabels(labels map[string]string) ([]*dto.LabelPair, error) {
	var pairs []*dto.LabelPair
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(name, labels[name]); err != nil {
			return nil, err
		}
		pairs = append(pairs, pair(name, labels[name]))
	}
	return pairs, nil
}

func pair(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)}
}

func byName(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) }

// owned returns the device's labels with its owner. Pairs that equal those of other, which may
// be nil, are shared.
func (d *device) owned(backend string, owner Owner, other *labels) *labels {
	if l := d.labels.Load(); l != nil && l.owner == owner {
		return l
	}
	// Empty labels are written, too: with honor_labels Prometheus would give a
	// series without them those of the agent's own pod.
	l := &labels{owner, []*dto.LabelPair{
		pair("backend", backend), pair("container", owner.Container), pair("device", d.id),
		pair("namespace", owner.Namespace), pair("pod", owner.Pod), pair("resource", owner.Resource),
	}}
	if other != nil {
		for i, p := range other.pairs {
			if p.GetValue() == l.pairs[i].GetValue() {
				l.pairs[i] = p
			}
		}
	}
	d.labels.Store(l)
	return l
}

// label sets the labels of the series from those of its device.
func (s *series) label(base *labels) {
	if m := s.all.Load(); len(s.own) == 0 || m != nil && m.base == base {
		return
	}
	m := &merged{base, slices.Concat(base.pairs, s.own)}
	slices.SortFunc(m.pairs, byName)
	s.all.Store(m)
}

// labels are those that label set.
func (s *series) labels() []*dto.LabelPair {
	if m := s.all.Load(); m != nil {
		return m.pairs
	}
	return s.device.labels.Load().pairs
}

// Desc implements [prometheus.Metric].
func (p *point) Desc() *prometheus.Desc { return p.series.family.desc }

// Write implements [prometheus.Metric]. The labels are shared and must not be changed.
func (p *point) Write(out *dto.Metric) error {
	out.Label = p.series.labels()
	if p.series.family.counter {
		out.Counter = &dto.Counter{Value: &p.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &p.value}
	}
	return nil
}

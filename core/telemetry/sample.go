package telemetry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Prefix begins the names of all metrics of backends.
const Prefix = "accelmux_device_"

// help is the same for all metrics: the contract has none, and a metric of two backends must
// have one.
const help = "What the device's backend measured; see the backend's documentation."

// sample has the valid metrics of one sample of a backend. It does not change.
type sample struct {
	backend  string
	at       time.Time
	interval time.Duration
	points   []point
	families map[string]*family // by name
	// hasUnknown: metrics named devices that are not in the inventory.
	hasUnknown bool
	violations []violation
}

// fresh reports whether the sample may be shown; a nil one may not.
func (s *sample) fresh(now time.Time) bool {
	return s != nil && now.Sub(s.at) <= shownFor*s.interval
}

// family is a metric's name.
type family struct {
	name    string // without Prefix
	counter bool
	desc    *prometheus.Desc
}

// point is a value of a device.
type point struct {
	device string
	family *family
	// labels are the backend's own, sorted by name.
	labels []*dto.LabelPair
	value  float64
}

// series identifies one metric of one device. labels are the backend's own, joined.
type series struct{ device, name, labels string }

// parse makes a sample of the metrics that obey the rules. Metrics of unknown devices are
// violations only if reportUnknown is true.
func parse(metrics []*backendv1.Metric, reportUnknown bool, r rules) *sample {
	n := min(len(metrics), maxMetrics)
	p := parser{
		rules: r, reportUnknown: reportUnknown, devices: map[string]bool{}, seen: make(map[series]bool, n),
		sample: &sample{points: make([]point, 0, n), families: map[string]*family{}},
	}
	for i, m := range metrics {
		if i == maxMetrics {
			p.violations.add(tooMany, m, fmt.Errorf("the sample has %d metrics, and at most %d are allowed", len(metrics), maxMetrics))
			break
		}
		if rule, err := p.metric(m); err != nil {
			p.violations.add(rule, m, err)
		}
	}
	p.sample.violations = p.violations.list()
	return p.sample
}

// parser makes one sample.
type parser struct {
	rules
	reportUnknown bool
	sample        *sample
	// devices are those named so far, with whether the inventory has them.
	devices map[string]bool
	// measured is the number of devices that the inventory has.
	measured   int
	seen       map[series]bool
	violations violations
}

var errUnknownDevice = errors.New("the inventory does not have the device, nor one that names it as its parent")

// metric adds one metric, or returns the rule that it breaks.
func (p *parser) metric(m *backendv1.Metric) (rule, error) {
	if rule, err := checkValue(m); err != nil {
		return rule, err
	}
	if len(m.GetLabels()) > maxLabels {
		return badLabel, fmt.Errorf("it has %d labels, and at most %d are allowed", len(m.GetLabels()), maxLabels)
	}
	if !p.hasDevice(m.GetDeviceId()) {
		// It may have been removed or added just now: this is a violation if it persists.
		if p.sample.hasUnknown = true; !p.reportUnknown {
			return "", nil
		}
		return unknownDevice, errUnknownDevice
	}
	f, rule, err := p.family(m.GetName())
	if err != nil {
		return rule, err
	}
	labels, err := ownLabels(m.GetLabels())
	if err != nil {
		return badLabel, err
	}
	s := series{m.GetDeviceId(), m.GetName(), joined(labels)}
	if p.seen[s] {
		return duplicate, errors.New("the sample has it twice with the same labels; the first one counts")
	}
	if p.budget != nil {
		if err := p.budget.admit(s, p.measured); err != nil {
			return tooNew, err
		}
	}
	p.seen[s] = true
	p.sample.points = append(p.sample.points, point{s.device, f, labels, m.GetValue()})
	return "", nil
}

// hasDevice reports whether the inventory has the device.
func (p *parser) hasDevice(id string) bool {
	known, named := p.devices[id]
	if !named {
		known = p.known(id)
		p.devices[id] = known
		if known {
			p.measured++
		}
	}
	return known
}

// family returns the family of a name, or why the name may not be used.
func (p *parser) family(name string) (*family, rule, error) {
	if f := p.sample.families[name]; f != nil {
		return f, "", nil
	}
	if err := p.checkName(name); err != nil {
		return nil, badName, err
	}
	if len(p.sample.families) == maxNames {
		return nil, tooMany, fmt.Errorf("the sample has more than %d names", maxNames)
	}
	f := &family{
		name: name, counter: strings.HasSuffix(name, counterSuffix), desc: prometheus.NewDesc(Prefix+name, help, nil, nil),
	}
	p.sample.families[name] = f
	return f, "", nil
}

// joined returns labels as one string; different labels have different strings.
func joined(labels []*dto.LabelPair) string {
	var b strings.Builder
	for _, l := range labels {
		for _, part := range [...]string{l.GetName(), l.GetValue()} {
			b.WriteString(strconv.Itoa(len(part)))
			b.WriteByte(':')
			b.WriteString(part)
		}
	}
	return b.String()
}

// ownLabels checks a backend's labels and sorts them by name.
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

// deviceLabels returns the labels that all metrics of a device have, sorted by name. Labels
// without a value are included: with honor_labels Prometheus would otherwise add those of
// the agent's own pod.
func deviceLabels(backend, device string, owner Owner) []*dto.LabelPair {
	return []*dto.LabelPair{
		pair("backend", backend), pair("claim", owner.Claim), pair("container", owner.Container), pair("device", device),
		pair("namespace", owner.Namespace), pair("pod", owner.Pod), pair("resource", owner.Resource),
	}
}

// metric is a value with all its labels; it implements [prometheus.Metric].
type metric struct {
	*point
	all []*dto.LabelPair
}

// Desc implements [prometheus.Metric].
func (m metric) Desc() *prometheus.Desc { return m.family.desc }

// Write implements [prometheus.Metric]. The labels are shared and must not be changed.
func (m metric) Write(out *dto.Metric) error {
	out.Label = m.all
	if m.family.counter {
		out.Counter = &dto.Counter{Value: &m.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &m.value}
	}
	return nil
}

package telemetry

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The bounds of one sample, which the contract has.
const (
	maxMetrics    = 20_480
	maxNames      = 512
	maxName       = 64
	maxLabels     = 8
	maxLabelValue = 128
	maxQuote      = 80
)

const counterSuffix = "_total"

// rule is one thing that can be wrong with a metric.
type rule string

// The rules; each is reported once, however many metrics break it.
const (
	tooMany       rule = "number"
	badName       rule = "name"
	badKind       rule = "kind"
	badValue      rule = "value"
	badLabel      rule = "label"
	unknownDevice rule = "device"
	duplicate     rule = "duplicate"
	tooNew        rule = "series"
)

var (
	nameSyntax = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// endings are those of histograms and summaries in the formats of Prometheus.
	endings = []string{"_bucket", "_sum", "_count", "_created"}
	// scaled maps the last words of names that are not in base units to the base units.
	scaled = map[string]string{
		"percent": "ratio", "percentage": "ratio",
		"minutes": "seconds", "hours": "seconds", "milliseconds": "seconds", "microseconds": "seconds", "nanoseconds": "seconds",
		"kilobytes": "bytes", "megabytes": "bytes", "gigabytes": "bytes", "kib": "bytes", "mib": "bytes", "gib": "bytes",
		"milliwatts": "watts", "kilowatts": "watts", "millijoules": "joules", "kilojoules": "joules",
		"khz": "hertz", "mhz": "hertz", "ghz": "hertz", "kilohertz": "hertz", "megahertz": "hertz", "gigahertz": "hertz",
		"fahrenheit": "celsius", "kelvin": "celsius", "millivolts": "volts", "milliamperes": "amperes",
	}
	// reservedLabels are the core's, and those that monitoring adds or interprets.
	reservedLabels = []string{"backend", "device", "resource", "namespace", "pod", "container", "claim", "node", "service", "endpoint", "instance", "job", "le", "quantile"}
)

// rules are the rules for a backend's metrics.
type rules struct {
	reserved []string
	known    func(device string) bool
	// budget bounds the backend's series over time; nil for no bound.
	budget *budget
}

// checkName returns why a name is refused.
func (r rules) checkName(name string) error {
	switch {
	case len(name) > maxName || !nameSyntax.MatchString(name):
		return fmt.Errorf("a name is lower-case letters, digits and single underscores, a letter first, at most %d characters", maxName)
	case slices.Contains(r.reserved, name):
		return errors.New("the name is reserved for the core")
	}
	for _, ending := range endings {
		if strings.HasSuffix(name, ending) {
			return fmt.Errorf("names that end in %s belong to histograms", ending)
		}
	}
	base := strings.TrimSuffix(name, counterSuffix)
	if unit := scaled[base[strings.LastIndexByte(base, '_')+1:]]; unit != "" {
		return fmt.Errorf("values are in base units: use %s", unit)
	}
	return nil
}

// checkValue returns why the kind or the value is refused.
func checkValue(m *backendv1.Metric) (rule, error) {
	counter := strings.HasSuffix(m.GetName(), counterSuffix)
	switch kind := m.GetKind(); {
	case kind != backendv1.MetricKind_METRIC_KIND_GAUGE && kind != backendv1.MetricKind_METRIC_KIND_COUNTER:
		return badKind, errors.New("it must be a gauge or a counter")
	case counter != (kind == backendv1.MetricKind_METRIC_KIND_COUNTER):
		return badKind, fmt.Errorf("names of counters, and only these, end in %s", counterSuffix)
	}
	switch value := m.GetValue(); {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return badValue, fmt.Errorf("the value is %v: leave out unknown values", value)
	case counter && value < 0:
		return badValue, fmt.Errorf("the counter is negative: %v", value)
	}
	return "", nil
}

// checkLabel returns why a label is refused.
func checkLabel(name, value string) error {
	switch {
	case len(name) > maxName || !nameSyntax.MatchString(name):
		return fmt.Errorf("the label %s: a name is lower-case letters, digits and single underscores, a letter first, at most %d characters", text.Quote(name, maxQuote), maxName)
	case slices.Contains(reservedLabels, name):
		return fmt.Errorf("the label %s is reserved", name)
	case len(value) > maxLabelValue:
		return fmt.Errorf("the value of label %s has %d bytes; at most %d are allowed", name, len(value), maxLabelValue)
	case !text.IsClean(value):
		return fmt.Errorf("the value of label %s, %s, contains control characters or is not valid UTF-8", name, text.Quote(value, maxQuote))
	}
	return nil
}

// violation is a broken rule.
type violation struct {
	rule rule
	text string
}

// violations counts the violations of each rule and stores the message of the first.
type violations struct {
	order []rule
	first map[rule]string
	count map[rule]int
}

func (c *violations) add(broken rule, m *backendv1.Metric, err error) {
	if c.first == nil {
		c.first, c.count = map[rule]string{}, map[rule]int{}
	}
	if c.count[broken]++; c.count[broken] == 1 {
		c.order = append(c.order, broken)
		c.first[broken] = fmt.Sprintf("the metric %s of device %s is left out: %s", text.Quote(m.GetName(), maxQuote), text.Quote(m.GetDeviceId(), maxQuote), err)
	}
}

// list returns the violations, in the order in which the rules were first broken.
func (c *violations) list() []violation {
	var list []violation
	for _, rule := range c.order {
		text := c.first[rule]
		if more := c.count[rule] - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		list = append(list, violation{rule, text})
	}
	return list
}

// Check returns what is wrong with the metrics of one sample, each broken rule once. known
// reports whether metrics may name a device, and reserved are the names of the core's own
// metrics.
func Check(metrics []*backendv1.Metric, reserved []string, known func(device string) bool) []string {
	var broken []string
	for _, c := range parse(metrics, true, rules{reserved: reserved, known: known}).violations {
		broken = append(broken, c.text)
	}
	return broken
}

package telemetry

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// sending sends the same metrics in every interval.
func sending(metrics ...*backendv1.Metric) play {
	return func(ctx context.Context, interval time.Duration, take func(*backendv1.SampleResponse)) error {
		return counting(ctx, interval, func(*backendv1.SampleResponse) { take(response(metrics...)) })
	}
}

// own sets the owner of device "d" of a backend.
func (r *rig) own(backend string, owner Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[inventory.Key{Backend: backend, ID: "d"}] = owner
}

func (r *rig) registry() *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Telemetry)
	return registry
}

// Verifies the text of a scrape: the same metric of two backends is one family, and the labels
// name the current holder.
func TestScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{
			"a": sending(gauge("d", "power_watts", 61.5), with(gauge("d", "temperature_celsius", 40), map[string]string{"sensor": "memory", "zone": "1"})),
			"b": sending(gauge("d", "power_watts", 7), counter("d", "resets_total", 2)),
		})
		r.own("a", Owner{"example.com/gpu", holders.Owner{Namespace: "team", Pod: "train", Container: "main"}})
		r.Apply(every(ten, "a", "b"))
		registry := r.registry()
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
		want := func(claim, container, rest string) {
			t.Helper()
			if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP accelmux_device_power_watts `+help+`
# TYPE accelmux_device_power_watts gauge
accelmux_device_power_watts{backend="a",claim="`+claim+`",container="`+container+`",device="d",`+rest+`} 61.5
accelmux_device_power_watts{backend="b",claim="",container="",device="d",namespace="",pod="",resource=""} 7
# HELP accelmux_device_resets_total `+help+`
# TYPE accelmux_device_resets_total counter
accelmux_device_resets_total{backend="b",claim="",container="",device="d",namespace="",pod="",resource=""} 2
# HELP accelmux_device_temperature_celsius `+help+`
# TYPE accelmux_device_temperature_celsius gauge
accelmux_device_temperature_celsius{backend="a",claim="`+claim+`",container="`+container+`",device="d",`+rest+`,sensor="memory",zone="1"} 40
`)); err != nil {
				t.Error(err)
			}
		}
		want("", "main", `namespace="team",pod="train",resource="example.com/gpu"`)
		r.own("a", Owner{Resource: "example.com/gpu"})
		want("", "", `namespace="",pod="",resource="example.com/gpu"`)
		pass(ten)
		r.own("a", Owner{"example.com/gpu", holders.Owner{Namespace: "team", Pod: "next", Container: "main", Claim: "next-gpu"}})
		want("next-gpu", "main", `namespace="team",pod="next",resource="example.com/gpu"`)
	})
}

// Verifies that a device that was removed from the inventory is not shown, although the
// newest sample has it.
func TestDeviceGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]play{"b": counting})
		r.Apply(every(ten, "b"))
		r.one()
		r.mu.Lock()
		clear(r.owners)
		r.mu.Unlock()
		r.none("of a removed device")
	})
}

// Verifies that whatever two backends send, a scrape works.
func TestScrapeOfAnything(t *testing.T) {
	metric := rapid.Custom(func(t *rapid.T) *backendv1.Metric {
		return &backendv1.Metric{
			DeviceId: rapid.SampledFrom([]string{"d", "e", "no-1", ""}).Draw(t, "device"),
			Name: rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
				"x", "x_total", "x_count", "x_bucket", "healthy", "y", "y_created", "x_total_total", "_", "x_", "total",
			})).Draw(t, "name"),
			Kind:  backendv1.MetricKind(rapid.Int32Range(-1, 3).Draw(t, "kind")),
			Value: rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, math.NaN(), math.Inf(1)})).Draw(t, "value"),
			Labels: rapid.MapOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a", "b", "pod", "claim", "le", "__name__", "device"})),
				rapid.String(), 0, 9).Draw(t, "labels"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		owner := Owner{Owner: holders.Owner{Pod: rapid.SampledFrom([]string{"", "pod"}).Draw(t, "pod")}}
		telemetry := New(Options{Owners: func() func(inventory.Key) (Owner, bool) {
			return func(key inventory.Key) (Owner, bool) { return owner, anything.known(key.ID) }
		}})
		telemetry.running = true
		telemetry.targets, telemetry.requestedAt = every(ten, "a", "b"), time.Now()
		for _, name := range []string{"a", "b"} {
			newest := parse(rapid.SliceOfN(metric, 0, 20).Draw(t, "metrics"), true, anything)
			newest.backend, newest.at, newest.interval = name, time.Now(), ten
			telemetry.feeds[name] = &feed{of: telemetry, newest: newest, answered: true, interval: ten}
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(telemetry)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(io.Discard, f); err != nil {
				t.Error(err)
			}
		}
	})
}

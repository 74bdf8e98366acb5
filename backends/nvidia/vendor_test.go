package nvidia

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// sample takes one sample.
func (r *rig) sample() []*sdk.Metric {
	r.t.Helper()
	metrics, err := r.backend.Sample(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return metrics
}

// value returns the value of a metric, and whether it exists.
func value(metrics []*sdk.Metric, device, name, label string) (float64, bool) {
	for _, m := range metrics {
		own := ""
		for _, v := range m.GetLabels() {
			own = v
		}
		if m.GetDeviceId() == device && m.GetName() == name && own == label {
			return m.GetValue(), true
		}
	}
	return 0, false
}

// A sample has NVML's measurements, in base units, and the XIDs by code. Nothing is
// measured unless a client requests metrics.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := drivertest.New("H100 80GB", 2)
		r := start(t, lib, 2, "")
		all := ids(r.Until("two healthy GPUs", healthy(2)))
		if n := lib.Calls("nvmlDeviceGetTemperature"); n != 0 {
			t.Errorf("%d temperatures were read though no client requests metrics", n)
		}
		for range 3 {
			lib.GPUs[1].XID(31)
		}
		lib.GPUs[1].XID(79)
		r.Until("XID 79", onlyBad(2, 1, "xid-79"))
		metrics := r.sample()
		for _, c := range []struct {
			gpu         int
			name, label string
			want        float64
		}{
			{0, "utilization_ratio", "", 0.5},
			{1, "throttled", "software-power-cap", 1},
			{1, "xid_errors_total", "31", 3},
			{1, "xid_errors_total", "79", 1},
		} {
			if got, ok := value(metrics, all[c.gpu], c.name, c.label); got != c.want || !ok {
				t.Errorf("%s %s of GPU %d is %v, %v, want %v", c.name, c.label, c.gpu, got, ok, c.want)
			}
		}
		if _, ok := value(metrics, all[0], "xid_errors_total", "31"); ok {
			t.Error("XIDs are counted for the wrong GPU")
		}
		for _, m := range metrics {
			counter := m.GetKind() == backendv1.MetricKind_METRIC_KIND_COUNTER
			if total := strings.HasSuffix(m.GetName(), "_total"); total != counter {
				t.Errorf("%s is %v", m.GetName(), m.GetKind())
			}
		}
		if n := lib.Calls("nvmlDeviceGetTemperature"); n != 2 {
			t.Errorf("%d temperatures were read for one sample of two GPUs", n)
		}
		// Without a driver the counters stay, and the stream continues.
		lib.Unload()
		if got, ok := value(r.sample(), all[1], "xid_errors_total", "31"); got != 3 || !ok {
			t.Errorf("without a driver %v XIDs, want 3", got)
		}
	})
}

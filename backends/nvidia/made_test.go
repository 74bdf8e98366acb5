package nvidia

import (
	"errors"
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
)

// Verifies that edits stay valid while only health changes, and no longer than the
// settings and the devices that they were made for.
func TestMadeHolds(t *testing.T) {
	snapshot := func(change func(*driver.Snapshot)) driver.Snapshot {
		s := driver.Snapshot{GPUs: []driver.GPU{{UUID: "GPU-a", Minor: 0, MIGEnabled: true, Instances: []driver.Instance{{UUID: "MIG-a"}}}, {UUID: "GPU-b", Minor: 1}}}
		change(&s)
		return s
	}
	cfg := &config{}
	m := made{cfg, &edits.Set{}, identities(snapshot(func(*driver.Snapshot) {}))}
	if (made{}).holds(nil, driver.Snapshot{}) {
		t.Error("nothing was made, and it holds")
	}
	if m.holds(&config{}, snapshot(func(*driver.Snapshot) {})) {
		t.Error("it holds with other settings")
	}
	for name, c := range map[string]struct {
		change func(*driver.Snapshot)
		want   bool
	}{
		"nothing":      {func(*driver.Snapshot) {}, true},
		"health":       {func(s *driver.Snapshot) { s.GPUs[0].Condition.Recovery = new(driver.RecoveryReset) }, true},
		"a GPU less":   {func(s *driver.Snapshot) { s.GPUs = s.GPUs[:1] }, false},
		"another node": {func(s *driver.Snapshot) { s.GPUs[1].Minor = 7 }, false},
		"MIG off":      {func(s *driver.Snapshot) { s.GPUs[0].MIGEnabled = false }, false},
		"an instance":  {func(s *driver.Snapshot) { s.GPUs[0].Instances[0].UUID = "MIG-b" }, false},
		"lost":         {func(s *driver.Snapshot) { s.GPUs[1].Err = errors.New("lost") }, false},
	} {
		if got := m.holds(cfg, snapshot(c.change)); got != c.want {
			t.Errorf("%s: holds %v, want %v", name, got, c.want)
		}
	}
}

package status

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/conflict"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
	"github.com/accelmux/accelmux/core/podresources"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/telemetry"
)

// factsOf are those of an agent with one backend, whose devices are a healthy and an
// unhealthy one of one resource; a container holds the healthy one. The PCI bus has a GPU.
func factsOf(t *testing.T) Facts {
	t.Helper()
	healthy := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: "a"}}
	broken := &inventory.Device{Key: inventory.Key{Backend: "mock", ID: "b"}}
	fault := health.Fault{Code: "broken", Message: "it is broken", Recovery: inventory.RecoveryReset}
	p := &config.Profile{Name: "p", Backends: []config.Backend{{Name: "mock"}}}
	snapshot := &inventory.Snapshot{Backends: []*inventory.Backend{{Name: "mock", Generation: 3, Devices: []*inventory.Device{healthy, broken}}}}
	r := &resource.Resource{Resource: config.Resource{Name: "ex.com/a", Replicas: 1, Injection: config.InjectCDI}, Devices: []resource.Device{
		{Device: healthy, Verdict: health.Verdict{Healthy: true}},
		{Device: broken, Verdict: health.Verdict{Faults: []health.Fault{fault}}},
	}}
	sysfs := t.TempDir()
	card := filepath.Join(sysfs, "bus/pci/devices/0000:05:00.0")
	must(t, os.MkdirAll(card, 0o700))
	for name, text := range map[string]string{"class": "0x030200\n", "vendor": "0x10de\n", "device": "0x15f8\n"} {
		must(t, os.WriteFile(filepath.Join(card, name), []byte(text), 0o600))
	}
	return Facts{
		Agent:    Agent{Role: RoleActive, Node: "node-1"},
		Profile:  profile.Status{InForce: &profile.Plan{Profile: p}},
		Backends: []supervisor.Status{{Name: "mock", State: supervisor.Running, Problems: []string{"it is slow"}}},
		Round: round.New(round.Round{
			Profile: p, Snapshot: snapshot, Health: &health.View{}, Table: &resource.Table{Resources: []*resource.Resource{r}},
		}),
		Inventory:   snapshot,
		Allocations: map[inventory.Key][]holders.Allocation{healthy.Key: {{Resource: "ex.com/a", Unit: "a", Containers: []podresources.Container{{Namespace: "ns", Pod: "p"}}}}},
		Kubelet:     Kubelet{Resources: []deviceplugin.Status{{Resource: "ex.com/a", State: deviceplugin.StateServing, Healthy: 1, Unhealthy: 1}}},
		Sysfs:       sysfs,
		Hardware:    func() pcibus.Table { return pcibus.Table{{Backend: "nvidia", Vendor: "10de", Class: "03"}} },
		Reset:       func(*inventory.Device) string { return "the last reset failed" },
		Telemetry:   telemetry.New(telemetry.Options{}),
	}
}

// Verifies what the report of a node that works has: its backends and resources, with what
// is allocated, and a problem for each fault.
func TestReportOfFacts(t *testing.T) {
	report := factsOf(t).Report()
	if len(report.NotReady) != 0 || report.NotReady == nil {
		t.Errorf("not ready: %v", report.NotReady)
	}
	if b := report.Backends; len(b) != 1 || b[0].Devices != 2 || b[0].Generation != 3 || b[0].State != "running" {
		t.Errorf("backends: %+v", b)
	}
	if r := report.Resources; len(r) != 1 || r[0].Units != 2 || r[0].Healthy != 1 || r[0].Allocated != 1 || r[0].Injection != "cdi" {
		t.Errorf("resources: %+v", r)
	}
	want := []Problem{
		{Backend: "mock", Message: "it is slow"},
		{Message: "the PCI bus has the accelerator 0000:05:00.0 (10de:15f8, class 0302), which no backend of the profile p covers: " +
			"add the backend nvidia, or add 10de to the profile's ignorePCI"},
		{Backend: "mock", Device: "b", Message: "unhealthy: broken: it is broken (needs reset); the last reset failed"},
	}
	if diff := cmp.Diff(want, report.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Verifies what keeps a node from being ready.
func TestNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   []string
	}{
		"nothing":  {func(*Facts) {}, nil},
		"no round": {func(f *Facts) { f.Round = nil }, []string{"no profile is in force yet"}},
		"a backend has not reported": {func(f *Facts) {
			f.Round.Snapshot.Backends = nil
			f.Backends[0].LastError, f.Backends[0].State = "no driver", supervisor.Misconfigured
		}, []string{"backend mock is misconfigured: no driver"}},
		"a backend cannot be started, and its devices are known": {func(f *Facts) {
			f.Round.Snapshot.Backends[0].LostAt = time.Now()
			f.Backends[0].LastError, f.Backends[0].State = "no driver", supervisor.Unavailable
		}, []string{"backend mock is unavailable: no driver"}},
		"kubelet does not have the resource": {func(f *Facts) { f.Kubelet.Resources = nil }, []string{"kubelet has not accepted resource ex.com/a yet"}},
		"another plugin has it": {func(f *Facts) {
			f.Kubelet.Conflicts = []conflict.Conflict{{Resource: "ex.com/a", Message: "it is old"}, {Resource: "ex.com/z"}}
		}, []string{"kubelet may not have resource ex.com/a from this agent: it is old"}},
		"no profile is chosen": {func(f *Facts) {
			f.Profile = profile.Status{InForce: &profile.Plan{Profile: &config.Profile{}}, Missing: []string{"two match"}}
		}, []string{"two match"}},
		"none is for the node": {func(f *Facts) { f.Profile.InForce = &profile.Plan{Profile: &config.Profile{}} }, nil},
	} {
		f := factsOf(t)
		c.change(&f)
		got := f.NotReady()
		if diff := cmp.Diff(append([]string{}, c.want...), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Verifies that an agent on standby reports its backends, and is ready when all of them work,
// and asks no part that is not open.
func TestReportOnStandby(t *testing.T) {
	f := Facts{
		Agent: Agent{Role: RoleStandby, Waits: []string{"another one is on standby"}}, Inventory: &inventory.Snapshot{},
		Profile:  profile.Status{InForce: &profile.Plan{Profile: &config.Profile{Backends: []config.Backend{{Name: "mock"}}}}},
		Backends: []supervisor.Status{{Name: "mock", State: supervisor.Starting}},
	}
	report := f.Report()
	if report.Role != RoleStandby || len(report.Backends) != 1 || len(report.NotReady) != 2 || len(report.Resources) != 0 {
		t.Errorf("%+v", report)
	}
	f.Agent.Waits, f.Backends[0].Applied = nil, true
	if report := f.Report(); report.NotReady == nil || len(report.NotReady) != 0 {
		t.Errorf("not ready: %v", report.NotReady)
	}
	if devices := f.devices(); devices == nil || len(devices) != 0 {
		t.Errorf("devices %v", devices)
	}
}

// Verifies that devices are listed with their resource, faults and holders.
func TestDevicesOfFacts(t *testing.T) {
	devices := factsOf(t).devices()
	if len(devices) != 2 || !devices[0].Healthy || len(devices[0].Holders) != 1 || devices[0].Holders[0].Pod != "p" {
		t.Fatalf("devices: %+v", devices)
	}
	if d := devices[1]; d.Healthy || len(d.Faults) != 1 || d.Faults[0].Code != "broken" || d.Resource != "ex.com/a" || len(d.Holders) != 0 {
		t.Errorf("the unhealthy device: %+v", d)
	}
}

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// twoBackends is a node configuration in which both backends have these settings.
const twoBackends = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: p
    backends:
      - {name: slow, settings: SETTINGS, allow: {devices: [/dev/null]}}
      - {name: other, allow: {devices: [/dev/null]}}
    resources:
      - {name: example.com/gpu, selector: 'device.attributes[device.driver].model == "M1"'}
`

// pipelineAgent is an agent that does not run: the test reports in place of the backends, and calls reconcile.
type pipelineAgent struct {
	*Agent
	t           *testing.T
	generations map[string]uint64
}

func openPipeline(t *testing.T, configuration string) *pipelineAgent {
	t.Helper()
	dir, err := os.MkdirTemp("", "x") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("node.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Open(Options{ConfigPath: at("node.yaml"), NodeName: "n", Directories: Directories{
		KubeletDir: at("kubelet"), CDIDir: at("cdi"), StateDir: at("state"), RunDir: at("run"), BackendDir: at("bin"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.closeState(nil), a.files.Close(), a.runLock.Release(), a.claim.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	// Closed, it starts no process and knows of none, so that a switch waits for the backends.
	if err := a.supervisor.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &pipelineAgent{a, t, map[string]uint64{}}
}

// report reports devices of this model with these IDs; those after faulty are unhealthy.
func (a *pipelineAgent) report(backend, model string, healthy, faulty []string) {
	a.t.Helper()
	if a.generations[backend]++; a.generations[backend] == 1 {
		a.inventory.Describe(backend, inventory.Description{Name: backend, Classes: []string{"gpu"}})
	}
	wire := &backendv1.Inventory{Generation: a.generations[backend]}
	for i, id := range append(healthy, faulty...) {
		health := &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY}
		if i >= len(healthy) {
			health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "hot", Recovery: backendv1.Recovery_RECOVERY_RESET}
		}
		wire.Devices = append(wire.Devices, &backendv1.Device{
			Id: id, Class: "gpu", Health: health,
			Attributes: map[string]*backendv1.Attribute{"model": {Value: &backendv1.Attribute_StringValue{StringValue: model}}},
			Edits:      &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/null"}}},
		})
	}
	encoded, err := inventory.EncodeReport(wire)
	if err == nil {
		err = a.inventory.Report(backend, encoded)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// served runs a round, and returns the devices of the resource, with "!" after those that are unhealthy.
func (a *pipelineAgent) served() string {
	a.t.Helper()
	if _, err := a.reconcile(); err != nil {
		a.t.Fatal(err)
	}
	var all []string
	for _, d := range a.round.Load().Resource("example.com/gpu").Devices {
		if d.Verdict.Healthy {
			all = append(all, d.ID)
		} else {
			all = append(all, d.ID+"!")
		}
	}
	return strings.Join(all, " ")
}

// configure hands a configuration file to the switch.
func (a *pipelineAgent) configure(configuration string) {
	a.t.Helper()
	parsed, err := config.Parse("node.yaml", []byte(configuration))
	if err != nil {
		a.t.Fatal(err)
	}
	files := make(chan config.Event, 1)
	files <- config.Event{Config: parsed, Data: []byte(configuration)}
	close(files)
	if err := a.plans.Run(context.WithoutCancel(a.t.Context()), files); err != nil {
		a.t.Fatal(err)
	}
}

// Verifies that while a backend takes its time to apply new settings, the rounds go on: a fault of its own device and
// one of another backend's act, and CDI definitions that were removed are written again. What it
// lists by the new settings waits for the new resources.
func TestRoundsGoOnWhileABackendIsReconfigured(t *testing.T) {
	before := strings.ReplaceAll(twoBackends, "SETTINGS", "{n: 1}")
	a := openPipeline(t, before)
	synctest.Test(t, func(t *testing.T) {
		a.report("slow", "M1", []string{"s1", "s2"}, nil)
		a.report("other", "M1", []string{"o1", "o2"}, nil)
		if got := a.served(); got != "o1 o2 s1 s2" {
			t.Fatalf("the devices are %s", got)
		}
		a.configure(strings.ReplaceAll(strings.ReplaceAll(twoBackends, "SETTINGS", "{n: 2}"), "M1", "M2"))
		for _, step := range []struct {
			what   string
			change func()
			want   string
		}{
			{"nothing", func() {}, "o1 o2 s1 s2"},
			{"a fault of the other backend", func() { a.report("other", "M1", []string{"o1"}, []string{"o2"}) }, "o1 o2! s1 s2"},
			{"a fault of its own", func() { a.report("slow", "M1", []string{"s2"}, []string{"s1"}) }, "o1 o2! s1! s2"},
			{"other devices by the new settings", func() { a.report("slow", "M2", []string{"s3"}, []string{"s2"}) }, "o1 o2! s1! s2!"},
			{"its loss", func() { a.inventory.Lost("slow") }, "o1 o2! s1! s2!"},
			{"a device of the other backend less", func() { a.report("other", "M1", []string{"o1"}, nil) }, "o1 s1! s2!"},
			{"an empty CDI directory", func() { a.removeSpecs(t) }, "o1 s1! s2!"},
		} {
			step.change()
			if got := a.served(); got != step.want {
				t.Errorf("after %s the devices are %s, want %s", step.what, got, step.want)
			}
			if waits := a.plans.Status().Waits; !strings.Contains(waits, "waits for backend slow to apply its new settings") {
				t.Fatalf("after %s the switch waits for %q", step.what, waits)
			}
		}
		if specs := a.specs(t); len(specs) != 2 {
			t.Errorf("the CDI directory has %q", specs)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's time, longer than the switch waits
		if got := a.served(); got != "s3 s2!" {
			t.Errorf("by the new configuration the devices are %s", got)
		}
	})
}

// specs returns the files of the CDI directory.
func (a *pipelineAgent) specs(t *testing.T) []string {
	t.Helper()
	specs, err := filepath.Glob(filepath.Join(a.opts.CDIDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return specs
}

func (a *pipelineAgent) removeSpecs(t *testing.T) {
	t.Helper()
	for _, spec := range a.specs(t) {
		if err := os.Remove(spec); err != nil {
			t.Fatal(err)
		}
	}
}

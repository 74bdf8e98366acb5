package agent

import (
	"fmt"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/resource"
)

func newJudge(tb testing.TB) *health.Judge {
	tb.Helper()
	judge, err := health.Open(health.Options{Path: tb.TempDir() + "/health", BootID: "boot"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := judge.Close(); err != nil {
			tb.Error(err)
		}
	})
	return judge
}

// manyPlan has one backend and all of its devices in one resource.
func manyPlan(tb testing.TB) *profile.Plan {
	tb.Helper()
	c, err := config.Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: default\n"+
		"  backends: [{name: mock}]\n  resources: [{name: example.com/gpu}]\n"))
	if err != nil {
		tb.Fatal(err)
	}
	mapper, err := resource.Compile(&c.Profiles[0])
	if err != nil {
		tb.Fatal(err)
	}
	return &profile.Plan{Profile: &c.Profiles[0], Mapper: mapper}
}

// many is a snapshot of so many devices.
func many(devices int) *inventory.Snapshot {
	backend := &inventory.Backend{Name: "mock", Generation: 1, Devices: make([]*inventory.Device, devices)}
	for i := range backend.Devices {
		id := fmt.Sprintf("mock-%d", i)
		backend.Devices[i] = &inventory.Device{
			Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", NUMANodes: []int{i % 2},
			Health: inventory.Health{State: inventory.StateHealthy},
			Edits:  inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/null", HostPath: "/dev/null", Permissions: "rw"}}, Env: inventory.Named(map[string]string{"MOCK": id})},
		}
	}
	return &inventory.Snapshot{Generation: 1, Backends: []*inventory.Backend{backend}}
}

// flapped is the snapshot with another health of one device.
func flapped(before *inventory.Snapshot, place int, fails bool) *inventory.Snapshot {
	backend := *before.Backends[0]
	backend.Generation++
	backend.Devices = append([]*inventory.Device(nil), backend.Devices...)
	d := *backend.Devices[place]
	d.Health = inventory.Health{State: inventory.StateHealthy, Recovered: true}
	if fails {
		d.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "x", Recovery: inventory.RecoverySelf}
	}
	backend.Devices[place] = &d
	return &inventory.Snapshot{Generation: before.Generation + 1, Backends: []*inventory.Backend{&backend}}
}

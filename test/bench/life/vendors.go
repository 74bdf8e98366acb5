package life

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/nvml"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Vendors is the section of a node with the backends of all vendors.
var Vendors = rig.Section{
	Name: "vendors",
	About: "One agent with the backends of NVIDIA (8 GPUs of a double of the driver's library), AMD (8 MI300X) and FPGAs (8\n" +
		"N3000), on trees of sysfs in memory, and the mock (8 devices): its start, beside the floor of the section starts,\n" +
		"what it costs when it is left alone for 60 s, and how long a fault of a device takes to kubelet's stream: from when\n" +
		"NVIDIA's library tells the event, and from when the backends that look once a second open the file of the counter or\n" +
		"register that shows it, beside a byte to another process and back. Memory is RssAnon, CPU the processes' clocks.",
	Measure: measureVendors,
}

const (
	vendorStarts = 21
	vendorIdle   = time.Minute
	// settled is how long after its start a node has done all that belongs to it.
	settled = 15 * time.Second

	vendorConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:
      - name: amd
        recovery: {delay: 0s, reset: never}
        settings: {POLLED LOADED}
      - name: fpga
        recovery: {delay: 0s, reset: never}
        settings: {POLLED}
      - name: mock
        settings: {count: 8}
      - name: nvidia
        recovery: {delay: 0s, reset: never}
        env: {ACCELMUX_NVML_FILE: DIR/nvml.confLOGGED}
        allow: {mounts: [DIR/driver/usr/lib64/*]}
        settings: {library: LIBRARY, edits: {driverRoot: DIR/driver}}
    resources:
      - {name: amd.com/gpu, backend: amd}
      - {name: fpga.intel.com/region, backend: fpga}
      - {name: example.com/gpu, backend: mock}
      - {name: nvidia.com/gpu, backend: nvidia}
`
)

// vendorWant is what such a node has.
var vendorWant = map[string]int{"amd.com/gpu": units, "fpga.intel.com/region": units, "example.com/gpu": units, "nvidia.com/gpu": units}

func measureVendors(s *rig.Setup) (_ []rig.Figure, err error) {
	dir, err := os.MkdirTemp("", "v")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	library, err := nvml.Build(context.Background(), dir)
	if err != nil {
		return nil, err
	}
	floor, remove, err := buildFloor()
	if err != nil {
		return nil, err
	}
	defer remove()
	rounds := s.Samples(vendorStarts)
	var floors, starts []time.Duration
	for range rounds {
		took, _, err := startFloor(floor)
		if err != nil {
			return nil, err
		}
		floors = append(floors, took)
		n, took, err := startVendors(s.Bin, library, "")
		if err != nil {
			return nil, err
		}
		starts = append(starts, took)
		if err := n.Stop(); err != nil {
			return nil, err
		}
	}
	figures := []rig.Figure{{
		What: "start to all capacity at kubelet, 4 backends", Value: rig.Milliseconds(rig.Median(starts)), Unit: "ms", Samples: rounds,
		Times: startLimit, Floor: rig.Milliseconds(rig.Median(floors)), FloorIs: "a go-plugin host, its plugin and the first call",
	}}
	costs, err := vendorCosts(s, library)
	if err != nil {
		return nil, err
	}
	faults, err := vendorFaults(s, library)
	return slices.Concat(figures, costs, faults), err
}

// vendorNode is a rig's, with the hardware.
type vendorNode struct {
	*rig.Node
	amd    *amdtree.Tree
	fpga   *fpgatree.Tree
	driver *nvml.Double
}

// startVendors starts a node with the hardware of all vendors, and says how long it took
// until kubelet had all of it. If a resource is given it is the node's, NVIDIA's library
// logs its calls, and the other backends look as often as their settings allow.
func startVendors(bin, library, resource string) (_ *vendorNode, took time.Duration, err error) {
	dir, err := sysroot.MakeTemp()
	if err != nil {
		return nil, 0, err
	}
	n := &vendorNode{}
	if err := n.make(library, dir); err != nil {
		return nil, 0, errors.Join(err, os.RemoveAll(dir))
	}
	logged, polled, loaded := "", "", ""
	if resource != "" {
		logged, polled, loaded = ", ACCELMUX_NVML_CALLS: DIR/nvml.calls", "health: {interval: 1s}", ", poll: 100ms, rescan: 2s"
	}
	config := strings.NewReplacer("LOGGED", logged, "POLLED", polled, "LOADED", loaded).Replace(vendorConfig)
	var mu sync.Mutex
	full := map[string]time.Time{} // since when kubelet has all of a resource
	n.Node, err = rig.Start(rig.NodeOptions{
		Bin: bin, Dir: dir, Config: strings.NewReplacer("DIR", dir, "LIBRARY", library).Replace(config), Want: vendorWant, Resource: resource,
		Kubelet: kubelettest.Options{OnEvent: func(e kubelettest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type == kubelettest.EventDevices && e.Allocatable == vendorWant[e.Resource] && full[e.Resource].IsZero() {
				full[e.Resource] = e.At
			}
		}},
	})
	if err != nil {
		return nil, 0, err
	}
	mu.Lock()
	defer mu.Unlock()
	for at := range maps.Values(full) {
		took = max(took, at.Sub(n.Began))
	}
	return n, took, nil
}

// make makes the hardware.
func (n *vendorNode) make(library, dir string) (err error) {
	gpus := amdtree.NewMI300X("SPX", "NPS1")
	gpus.Cards, gpus.Sensors = 0, 100 // those of the FPGAs come first
	if n.amd, err = amdtree.Write(dir, gpus); err != nil {
		return err
	}
	if n.fpga, err = fpgatree.Write(dir, fpgatree.NewMany(units)); err != nil {
		return err
	}
	if _, err = nvml.NewHost(dir, units); err != nil {
		return err
	}
	if n.driver, err = nvml.New(library, dir); err != nil {
		return err
	}
	if err := n.driver.Update(func(s nvml.State) {
		for slot := range units {
			s.AddGPU(slot)
		}
	}); err != nil {
		return err
	}
	// The node of the mock's devices.
	return errors.Join(os.WriteFile(filepath.Join(dir, "dev/null"), nil, 0o600), os.MkdirAll(filepath.Join(dir, "proc"), 0o755))
}

// vendorCosts is what a node costs that is left alone.
func vendorCosts(s *rig.Setup, library string) (_ []rig.Figure, err error) {
	n, _, err := startVendors(s.Bin, library, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	pause, begin := vendorIdle, settled
	if s.Quick {
		pause, begin = 3*time.Second, time.Second
	}
	<-time.After(begin)
	processes := []rig.Process{{Name: "core", PID: n.Agent, CPU: 0.1}}
	for _, name := range []string{"amd", "fpga", "mock", "nvidia"} {
		processes = append(processes, rig.Process{Name: name + " backend", PID: n.Backends[name], CPU: 0.1})
	}
	figures, err := rig.Idle(processes, pause, "at rest")
	if err != nil {
		return nil, err
	}
	all := 0.0
	for i, p := range processes {
		used, err := rig.Anonymous(p.PID)
		if err != nil {
			return nil, err
		}
		limit := 6.0
		if i == 0 {
			limit = 20
		}
		all += used
		figures = append(figures, rig.Figure{What: fmt.Sprintf("anonymous memory of the %s", p.Name), Value: used, Unit: "MB", Limit: limit})
	}
	return append(figures, rig.Figure{What: "anonymous memory of the core and 4 backends", Value: all, Unit: "MB", Limit: 40}), nil
}

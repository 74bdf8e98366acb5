package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
)

// scenarioFault breaks one device until a reset or other evidence says it is
// sound; scenarioRecovered is that evidence.
const (
	scenarioFault = `
devices:
  mock-2:
    fault: {code: ecc-uncorrectable, message: two bits flipped in bank 3, recovery: reboot}
`
	scenarioRecovered = `
devices:
  mock-2: {recovered: true}
`
)

// demoPatience bounds every step of the script.
const demoPatience = 30 * time.Second

// demoPod is the pod that holds devices while things happen.
const demoPod = "train"

// play runs the script. A step that fails is noted and ends it: the later ones
// build on it.
func (d *demo) play(ctx context.Context) {
	steps := []struct {
		title, what string
		run         func(context.Context) error
	}{
		{"A node starts: kubelet, then the agent with a backend of eight mock devices", "devices registered and healthy", d.register},
		{"A pod asks for two devices", "two devices of one NUMA node, prepared, with their CDI edits", d.allocate},
		{"A device fails", "kubelet knows of the fault", d.fail},
		{"Its backend is killed, and forgets what it knew", "backend back, no healthy device lost, the fault remembered", d.killBackend},
		{"The device has recovered", "kubelet knows of the recovery", d.recover},
		{"Kubelet restarts", "registered again, the pod keeps its devices", d.restartKubelet},
		{"The pod ends", "the devices are free again", d.release},
	}
	for _, step := range steps {
		d.screen.title(step.title)
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, demoPatience)
		err := step.run(limited)
		cancel()
		d.results = append(d.results, result{what: step.what, took: time.Since(began), err: err})
		if err != nil {
			return
		}
	}
}

// demoDevices is how many devices demo.yaml has.
const demoDevices = 8

// healthy waits until kubelet sees all the devices, and so many healthy ones.
func (d *demo) healthy(ctx context.Context, allocatable int) error {
	return d.kubelet.WaitFor(ctx, func(s kubelettest.State) bool {
		r := s.Resources[demoResource]
		return r.Capacity == demoDevices && r.Allocatable == allocatable && r.Connections > 0
	})
}

func (d *demo) register(ctx context.Context) error {
	if err := d.kubelet.Start(); err != nil {
		return err
	}
	if err := d.healthy(ctx, demoDevices); err != nil {
		return err
	}
	nodes := map[string][]string{}
	for _, device := range d.kubelet.Devices(demoResource) {
		node := numa(device.NUMANodes)
		nodes[node] = append(nodes[node], device.ID)
	}
	for _, node := range []string{"0", "1"} {
		d.screen.say("NUMA node %s:  %s", node, strings.Join(nodes[node], "  "))
	}
	return nil
}

func (d *demo) allocate(ctx context.Context) error {
	if _, err := d.kubelet.Allocate(ctx, demoPod, "main", demoResource, 2); err != nil {
		return err
	}
	settings, err := d.kubelet.StartContainer(ctx, demoPod, "main")
	if err != nil {
		return err
	}
	for _, name := range settings.CDIDevices {
		d.screen.say("CDI device   %s", name)
		edits, err := d.edits(name)
		if err != nil {
			return err
		}
		for _, env := range edits.Env {
			d.screen.say("  env        %s", env)
		}
		for _, node := range edits.DeviceNodes {
			d.screen.say("  node       %s (host: %s, %s)", node.Path, node.HostPath, node.Permissions)
		}
	}
	return nil
}

func (d *demo) fail(ctx context.Context) error {
	if err := d.act(scenarioFault); err != nil {
		return err
	}
	return d.healthy(ctx, demoDevices-1)
}

func (d *demo) recover(ctx context.Context) error {
	if err := d.act(scenarioRecovered); err != nil {
		return err
	}
	return d.healthy(ctx, demoDevices)
}

// killBackend kills the backend's process and waits for its successor. The
// device that failed has lost its witness meanwhile: the core remembers.
func (d *demo) killBackend(ctx context.Context) error {
	before, err := d.backend()
	if err != nil {
		return err
	}
	if err := d.act(""); err != nil {
		return err
	}
	d.screen.say("kill -9 %d", before.PID)
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if now := d.kubelet.Allocatable(demoResource); now != demoDevices-1 {
			return fmt.Errorf("kubelet saw %d healthy devices instead of %d meanwhile", now, demoDevices-1)
		}
		after, err := d.backend()
		if err != nil {
			return err
		}
		if after.State == "running" && after.PID != before.PID && after.Generation > before.Generation {
			d.screen.say("back as process %d; kubelet saw %d of %d devices healthy all the time", after.PID, demoDevices-1, demoDevices)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the backend did not come back: " + after.LastError)
		case <-tick.C:
		}
	}
}

func (d *demo) restartKubelet(ctx context.Context) error {
	held := d.held()
	if err := d.kubelet.Restart(); err != nil {
		return err
	}
	if err := d.healthy(ctx, demoDevices); err != nil {
		return err
	}
	if now := d.held(); !slices.Equal(now, held) {
		return fmt.Errorf("the pod held %v before and holds %v now", held, now)
	}
	_, err := d.kubelet.StartContainer(ctx, demoPod, "main")
	return err
}

func (d *demo) release(ctx context.Context) error {
	d.kubelet.Free(demoPod)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		free := !slices.ContainsFunc(d.agent.Devices(), func(device status.Device) bool { return len(device.Holders) > 0 })
		if free {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the agent still counts the devices as held")
		case <-tick.C:
		}
	}
}

func (d *demo) held() []string {
	var devices []string
	for _, allocation := range d.kubelet.Allocations() {
		devices = append(devices, allocation.Devices...)
	}
	return devices
}

func (d *demo) backend() (status.Backend, error) {
	report := d.agent.Report()
	if len(report.Backends) != 1 {
		return status.Backend{}, errors.New("expected one backend, got " + strconv.Itoa(len(report.Backends)))
	}
	return report.Backends[0], nil
}

// act replaces the scenario by a rename, as it must be.
func (d *demo) act(text string) error {
	temporary := d.scenario + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, d.scenario)
}

// edits resolves a CDI name as a container runtime does, from the files on disk.
func (d *demo) edits(name string) (*specs.ContainerEdits, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(filepath.Join(d.dir, "cdi")), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	device := cache.GetDevice(name)
	if device == nil {
		return nil, fmt.Errorf("no CDI spec defines %s", name)
	}
	return &device.ContainerEdits, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status/listing"
)

// scenarioFault makes one device fail until it is reset or reported as recovered;
// scenarioRecovered reports it as recovered.
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

// demoPatience bounds each step of the script.
const demoPatience = 30 * time.Second

// demoPod is the pod that holds devices throughout the script.
const demoPod = "train"

// script runs the script and prints a summary; with watch it then waits until ctx ends.
func (d *demo) script(ctx context.Context, watch bool) error {
	d.play(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failed := d.summary()
	if watch {
		d.watch(ctx)
	}
	return failed
}

// watch prints how to change and show the devices, and waits until ctx ends.
func (d *demo) watch(ctx context.Context) {
	d.screen.title("Try it yourself (Ctrl-C ends the demo)")
	d.screen.say("Write a scenario to %s, for example:", d.scenario)
	d.screen.say("    %s", strings.ReplaceAll(strings.TrimSpace(scenarioFault), "\n", "\n      "))
	d.screen.say("Ask the agent:  %s devices --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	d.screen.say("                %s status --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	d.screen.say("                %s topology explain -n 4 --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	<-ctx.Done()
	d.screen.say("")
}

// summary prints the result of each step, and returns the errors of those that failed.
func (d *demo) summary() error {
	d.screen.title("Summary")
	var failed []error
	for _, r := range d.results {
		mark, note := "ok", r.took.Round(time.Millisecond).String()
		if r.err != nil {
			mark, note = "FAILED", r.err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", r.what, r.err))
		}
		d.screen.say("%-7s %-62s %s", mark, r.what, note)
	}
	return errors.Join(failed...)
}

// play runs the steps of the script and records their results. It stops at the first that
// fails: the later steps depend on it.
func (d *demo) play(ctx context.Context) {
	steps := []struct {
		title string
		// waits completes "waiting until", what says what a step that worked has shown.
		waits, what string
		run         func(context.Context) error
	}{
		{"A node starts: kubelet, then the agent with a backend of eight mock devices", "kubelet has eight healthy devices", "devices registered and healthy", d.register},
		{"A pod asks for two devices", "the backend has prepared them", "two devices of one NUMA node, prepared, with their CDI edits", d.allocate},
		{"A device fails", "kubelet has seven healthy devices", "kubelet sees the fault", d.fail},
		{"Its backend is killed, and loses its state", "the backend runs again", "backend runs again, no healthy device lost, fault still reported", d.killBackend},
		{"The device has recovered", "kubelet has eight healthy devices", "kubelet sees the recovery", d.recover},
		{"Kubelet restarts", "it has eight healthy devices, and starts the container again", "registered again, the pod keeps its devices", d.restartKubelet},
		{"The pod ends", "the agent has released its devices", "devices released", d.release},
	}
	for i, step := range steps {
		d.screen.title(fmt.Sprintf("Step %d of %d: %s", i+1, len(steps), step.title))
		d.screen.say("waiting up to %s until %s", demoPatience, step.waits)
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

// demoDevices is the number of devices in demo.yaml.
const demoDevices = 8

// healthy waits until kubelet sees all devices, and exactly allocatable healthy ones.
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
		node := listing.NUMAText(device.NUMANodes)
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
	return d.showContainer(settings)
}

func (d *demo) fail(ctx context.Context) error {
	if err := writeScenario(d.scenario, []byte(scenarioFault)); err != nil {
		return err
	}
	return d.healthy(ctx, demoDevices-1)
}

func (d *demo) recover(ctx context.Context) error {
	if err := writeScenario(d.scenario, []byte(scenarioRecovered)); err != nil {
		return err
	}
	return d.healthy(ctx, demoDevices)
}

// killBackend kills the backend's process and waits for the new one, which does not report the
// fault. The core must keep it.
func (d *demo) killBackend(ctx context.Context) error {
	if err := writeScenario(d.scenario, nil); err != nil {
		return err
	}
	err := d.kill(ctx, "mock", func() error {
		if now := d.kubelet.Allocatable(demoResource); now != demoDevices-1 {
			return fmt.Errorf("kubelet saw %d healthy devices, want %d", now, demoDevices-1)
		}
		return nil
	})
	if err == nil {
		d.screen.say("kubelet always saw %d of %d devices healthy", demoDevices-1, demoDevices)
	}
	return err
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
		return fmt.Errorf("the pod held %v before the restart and holds %v after it", held, now)
	}
	_, err := d.kubelet.StartContainer(ctx, demoPod, "main")
	return err
}

func (d *demo) release(ctx context.Context) error {
	d.kubelet.Free(demoPod)
	if err := await(ctx, func() (bool, error) {
		return !slices.ContainsFunc(d.agent.Devices(), func(device listing.Device) bool { return len(device.Holders) > 0 }), nil
	}); err != nil {
		return errors.New("the agent has not released the devices")
	}
	return nil
}

func (d *demo) held() []string {
	var devices []string
	for _, allocation := range d.kubelet.Allocations() {
		devices = append(devices, allocation.Devices...)
	}
	return devices
}

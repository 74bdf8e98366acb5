package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/kernel/wire"
)

// Guest has the methods that the tests call.
type Guest struct {
	kubelet *kubelettest.Kubelet

	mu      sync.Mutex
	changes []wire.Change
}

func newGuest() (*Guest, error) {
	g := &Guest{}
	g.kubelet = kubelettest.New("/var/lib/kubelet", kubelettest.Options{
		OnDevices: func(resource string, devices []*pluginapi.Device) {
			list := make([]string, 0, len(devices))
			for _, d := range devices {
				id := d.GetID()
				if d.GetHealth() != pluginapi.Healthy {
					id = "!" + id
				}
				list = append(list, id)
			}
			slices.Sort(list)
			g.note(wire.Change{Resource: resource, Devices: list})
		},
	})
	listener, err := uevent.Listen(func(uevent.Event) bool { return true })
	if err != nil {
		return nil, err
	}
	go func() {
		for e := range listener.Events() {
			g.note(wire.Change{Uevent: fmt.Sprintf("%s %s %s", e.Action, e.Subsystem, e.DevPath)})
		}
	}()
	// A pod that stays, as each node has. The agent takes a list without any pod for that of a kubelet that is starting.
	g.kubelet.Admit("kube-system/kube-proxy")
	if err := g.restore(); err != nil {
		return nil, err
	}
	return g, g.kubelet.Start()
}

// checkpoint has the allocations for the machine's next life, as the checkpoint of kubelet's device manager has.
const checkpoint = "/var/lib/kubelet/allocations"

func (g *Guest) restore() error {
	text, err := os.ReadFile(checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var allocations []kubelettest.Allocation
	if err := errors.Join(err, json.Unmarshal(text, &allocations)); err != nil {
		return fmt.Errorf("read the stand-in's allocations: %w", err)
	}
	for _, a := range allocations {
		g.kubelet.Restore(a)
	}
	return nil
}

func (g *Guest) store() error {
	text, err := json.Marshal(g.kubelet.Allocations())
	if err != nil {
		return fmt.Errorf("write the stand-in's allocations: %w", err)
	}
	return os.WriteFile(checkpoint, text, 0o600)
}

func (g *Guest) note(c wire.Change) {
	c.At = time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes = append(g.changes, c)
}

// Boot returns which life of the machine this is.
func (g *Guest) Boot(_ struct{}, boot *wire.Boot) error {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	boot.ID = strings.TrimSpace(string(text))
	return err
}

// Run runs a command of the shell. What it starts in the background is not waited for if it has outputs of its own.
func (g *Guest) Run(command string, out *wire.Output) error {
	cmd := exec.CommandContext(context.Background(), "/bin/bash", "-c", command)
	cmd.Env = append(os.Environ(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C")
	text, err := cmd.CombinedOutput()
	out.Text = string(text)
	if cmd.ProcessState == nil {
		return fmt.Errorf("start a shell: %w", err)
	}
	out.Status = cmd.ProcessState.ExitCode()
	return nil
}

// Replace replaces an installed program, which may run.
func (g *Guest) Replace(p wire.Program, _ *struct{}) error {
	next := p.Path + ".new"
	if err := os.WriteFile(next, p.Data, 0o755); err != nil {
		return fmt.Errorf("replace a program: %w", err)
	}
	if err := os.Rename(next, p.Path); err != nil {
		return fmt.Errorf("replace a program: %w", err)
	}
	return nil
}

// Devices returns what the stand-in kubelet has of a resource.
func (g *Guest) Devices(resource string, devices *[]kubelettest.Device) error { //nolint:unparam // net/rpc wants it
	// The protocol takes null for an error.
	*devices = append([]kubelettest.Device{}, g.kubelet.Devices(resource)...)
	return nil
}

// Changes returns those since the given number of them.
func (g *Guest) Changes(since int, changes *[]wire.Change) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	*changes = append([]wire.Change{}, g.changes[min(since, len(g.changes)):]...)
	return nil
}

// Allocate admits a pod, and returns what its container would be started with.
func (g *Guest) Allocate(r wire.Request, got *wire.Allocation) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	allocation, err := g.kubelet.Allocate(ctx, r.Pod, "c", r.Resource, r.Count)
	if err != nil {
		return err
	}
	settings, err := g.kubelet.StartContainer(ctx, r.Pod, "c")
	if err != nil {
		return err
	}
	*got = wire.Allocation{Devices: allocation.Devices, Settings: *settings}
	return g.store()
}

// Free ends a pod.
func (g *Guest) Free(pod string, _ *struct{}) error {
	g.kubelet.Free(pod)
	return g.store()
}

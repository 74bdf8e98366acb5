package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/suggestion"
)

// devices prints the resources and devices that kubelet lists, and their pods.
func (s *session) devices(context.Context, []string) error {
	pods := map[string]map[string]string{} // by resource and device
	for _, a := range s.kubelet.Allocations() {
		if pods[a.Resource] == nil {
			pods[a.Resource] = map[string]string{}
		}
		for _, id := range a.Devices {
			pods[a.Resource][id] = a.Pod
		}
	}
	s.screen.table(func(w *tabwriter.Writer) {
		row(w, "RESOURCE", "DEVICE", "HEALTH", "NUMA", "POD")
		for _, resource := range slices.Sorted(maps.Keys(s.kubelet.State().Resources)) {
			listed := s.kubelet.Devices(resource)
			for _, d := range listed {
				row(w, resource, d.ID, healthText(d.Healthy), listing.NUMAText(d.NUMANodes), pods[resource][d.ID])
			}
			if len(listed) == 0 {
				row(w, resource, "none", "", "", "")
			}
		}
	})
	return nil
}

func healthText(healthy bool) string {
	if healthy {
		return "healthy"
	}
	return "unhealthy"
}

// alloc makes a pod and does what kubelet does for it: GetPreferredAllocation and Allocate at
// admission, then the start of its container.
func (s *session) alloc(ctx context.Context, args []string) error {
	resource := args[0]
	count, err := strconv.Atoi(args[1])
	if err != nil || count < 1 {
		return fmt.Errorf("%q is not a number of devices: give 1 or more", args[1])
	}
	if known := slices.Sorted(maps.Keys(s.kubelet.State().Resources)); !slices.Contains(known, resource) {
		return fmt.Errorf("kubelet has no resource %s%s", resource, suggestion.OrAll(resource, "it has", known))
	}
	name := fmt.Sprintf("pod-%d", s.newest+1)
	pod, err := s.newPod(name, resource, args[2:])
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.pods[name] = pod
	s.mu.Unlock()
	given, err := s.kubelet.Allocate(ctx, name, demoContainer, resource, count)
	if err != nil {
		s.forget(name)
		return fmt.Errorf("allocate devices: %w", err)
	}
	s.newest++
	return errors.Join(s.start(ctx, []string{name}), s.listed(ctx, given))
}

// listed waits until the agent has seen the pod in kubelet's pod list. The agent releases a
// pod that it has never seen there much later.
func (s *session) listed(ctx context.Context, given *kubelettest.Allocation) error {
	err := await(ctx, func() (bool, error) {
		for _, d := range s.agent.Devices() {
			for _, h := range d.Holders {
				if h.Pod == "" && h.Resource == given.Resource && slices.Contains(given.Devices, h.Unit) {
					return false, nil
				}
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the agent sees %s in kubelet's list of pods: %w; `status` shows the agent's problems", given.Pod, err)
	}
	return nil
}

// start starts a pod's container; it may be called again.
func (s *session) start(ctx context.Context, args []string) error {
	name := args[0]
	if err := s.checkPod(name); err != nil {
		return err
	}
	settings, err := s.kubelet.StartContainer(ctx, name, demoContainer)
	if err != nil {
		return fmt.Errorf("start the container of %s: %w; `start %s` tries again, as kubelet does, and `free %[1]s` ends the pod", name, err, name)
	}
	return s.showContainer(settings)
}

// free ends a pod and waits until each of its devices is released.
func (s *session) free(ctx context.Context, args []string) error {
	name := args[0]
	if err := s.checkPod(name); err != nil {
		return err
	}
	has := func(d listing.Device) bool {
		return slices.ContainsFunc(d.Holders, func(h listing.Holder) bool { return h.Pod == name })
	}
	ended := slices.DeleteFunc(s.agent.Devices(), func(d listing.Device) bool { return !has(d) })
	s.mu.Lock()
	clear(s.releases)
	s.mu.Unlock()
	s.kubelet.Free(name)
	defer s.forget(name)
	for _, d := range ended {
		others := slices.DeleteFunc(slices.Clone(d.Holders), func(h listing.Holder) bool { return h.Pod == name })
		err := await(ctx, func() (bool, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			err, released := s.releases[d.Backend+"/"+d.ID]
			return released, err
		})
		switch {
		case errors.Is(err, errLate):
			return fmt.Errorf("device %s of backend %s is not released yet: %w; `status` shows the agent's problems", d.ID, d.Backend, err)
		case err != nil:
			return fmt.Errorf("device %s of backend %s is not released: %w; the agent tries again, and `status` shows the problem until it succeeds", d.ID, d.Backend, err)
		case len(others) > 0:
			s.screen.say("%s is released; it is still allocated to %s", d.ID, listing.HoldersText(others))
		default:
			s.screen.say("%s is released", d.ID)
		}
	}
	return nil
}

// restart restarts kubelet and waits until the agent has registered its resources again.
func (s *session) restart(ctx context.Context, args []string) error {
	if args[0] != "kubelet" {
		return fmt.Errorf("cannot restart %s, only kubelet; `kill BACKEND` kills a backend, which the agent starts again", args[0])
	}
	before := s.kubelet.State().Resources
	if err := s.kubelet.Restart(); err != nil {
		return err
	}
	var missing []string
	err := await(ctx, func() (bool, error) {
		missing = nil
		now := s.kubelet.State().Resources
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if before[name].Connections > 0 && now[name].Updates == 0 {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the agent registers %s again: %w", strings.Join(missing, ", "), err)
	}
	return nil
}

func (s *session) killNamed(ctx context.Context, args []string) error {
	return s.kill(ctx, args[0], func() error { return nil })
}

// kill kills the backend's process and waits until the new process has reported an inventory.
// While it waits it calls check; an error of check ends the wait.
func (d *demo) kill(ctx context.Context, name string, check func() error) error {
	before, err := d.backend(name)
	if err != nil {
		return err
	}
	if before.PID == 0 {
		return fmt.Errorf("backend %s has no process: its state is %s: %s", name, before.State, before.LastError)
	}
	d.screen.say("kill -9 %d", before.PID)
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill backend %s, process %d: %w", name, before.PID, err)
	}
	began, after := time.Now(), before
	err = await(ctx, func() (bool, error) {
		if err := check(); err != nil {
			return false, err
		}
		after, err = d.backend(name)
		return err == nil && after.State == "running" && after.PID != before.PID && after.Generation > before.Generation, err
	})
	if errors.Is(err, errLate) {
		return fmt.Errorf("wait until backend %s runs again: %w; its state is %s: %s", name, err, after.State, after.LastError)
	}
	if err == nil {
		d.screen.say("backend %s runs again as process %d after %s", name, after.PID, time.Since(began).Round(time.Millisecond))
	}
	return err
}

// backend returns the agent's report of a backend.
func (d *demo) backend(name string) (status.Backend, error) {
	var names []string
	for _, b := range d.agent.Report().Backends {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return status.Backend{}, fmt.Errorf("no backend %q%s", name, suggestion.OrAll(name, "the backends are", names))
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// kubelet is the node's, the stand-in or a real one (realkubelet.go). Each pod has one
// container, main, which holds one resource.
type kubelet interface {
	// PluginDir and RegistryDir are the directories of plugins' sockets.
	PluginDir() string
	RegistryDir() string

	Start() error
	// Stop ends it as SIGTERM does, Kill as SIGKILL does: its sockets stay. Both do
	// nothing to one that is stopped.
	Stop() error
	Kill() error
	Restart() error
	// Close is Stop for good.
	Close() error

	// Allocate gives a pod's container devices, as kubelet does when it admits the pod.
	Allocate(ctx context.Context, pod, resource string, count int) (*kubelettest.Allocation, error)
	// StartContainer is what kubelet does for the plugins when the container starts.
	StartContainer(ctx context.Context, pod string) error
	// Free ends a pod.
	Free(pod string)
	// Allocations are what the pods hold by kubelet's books.
	Allocations() []kubelettest.Allocation
	// Mortal are the pods that kubelet will not have any more once it has restarted.
	Mortal() []string
	// Forgetful says that kubelet's books are in its directory of plugins.
	Forgetful() bool

	// Claims are its part in claims; nil if it has none.
	Claims() draKubelet

	// Gapless says that one agent may end while another serves its resources already, and
	// kubelet misses nothing.
	Gapless() bool

	// Seen is what it knows of plugins; nil without an answer.
	Seen() *kubeletSeen
	// Log are its last lines, for a report.
	Log() string
}

// kubeletSeen is what a kubelet knows of its plugins.
type kubeletSeen struct {
	Resources map[string]resourceSeen
	// Duplicates counts registrations of a socket that kubelet was connected to.
	Duplicates int
	// Connections are those to plugins.
	Connections int
}

// resourceSeen is what a kubelet knows of a resource.
type resourceSeen struct {
	Healthy, Unhealthy []string
	// Orphaned are those of a resource that no plugin serves.
	Orphaned []string
}

const containerName = "main"

// newKubelet makes a kubelet whose root is dir: a real one if there is a program of it,
// or the stand-in. The watch hears what it is told.
func newKubelet(ctx context.Context, program, dir string, w *watch, c *claims) (kubelet, error) {
	if program == "" {
		return newStandIn(dir, w, c.wipe), nil
	}
	return newRealKubelet(ctx, program, dir, c.server.URL, w)
}

// standIn is kubelettest's.
type standIn struct {
	*kubelettest.Kubelet
	wipe func() error // deletes the node's slices
}

func newStandIn(dir string, w *watch, wipe func() error) standIn {
	return standIn{wipe: wipe, Kubelet: kubelettest.New(dir, kubelettest.Options{
		OnEvent: w.event, OnDevices: w.devices,
		Timing: kubelettest.Timing{Reconcile: 100 * time.Millisecond, RegisterBackoff: 50 * time.Millisecond},
	})}
}

// Start is that of a kubelet, which deletes the slices of its node then.
func (k standIn) Start() error { return errors.Join(k.Kubelet.Start(), k.wipe()) }

func (k standIn) Restart() error { return errors.Join(k.Kubelet.Restart(), k.wipe()) }

func (k standIn) Stop() error {
	k.Kubelet.Stop()
	return nil
}

func (k standIn) Close() error { return k.Stop() }

func (k standIn) Kill() error {
	k.Kubelet.Kill()
	return nil
}

func (k standIn) Allocate(ctx context.Context, pod, resource string, count int) (*kubelettest.Allocation, error) {
	return k.Kubelet.Allocate(ctx, pod, containerName, resource, count)
}

func (k standIn) StartContainer(ctx context.Context, pod string) error {
	_, err := k.Kubelet.StartContainer(ctx, pod, containerName)
	return err
}

func (k standIn) Claims() draKubelet { return k }

func (k standIn) PrepareClaim(ctx context.Context, pod string, claim kubelettest.Claim) (names []string, err error) {
	devices, err := k.Kubelet.PrepareClaim(ctx, pod, claimDriver, claim)
	for _, d := range devices {
		names = append(names, d.GetCdiDeviceIds()...)
	}
	return names, err
}

func (k standIn) UnprepareClaim(ctx context.Context, _ string, claim kubelettest.Claim, last bool) error {
	if !last {
		return nil
	}
	return k.Kubelet.UnprepareClaim(ctx, claimDriver, claim)
}

func (k standIn) Mortal() []string { return nil }
func (k standIn) Forgetful() bool  { return false }
func (k standIn) Gapless() bool    { return true }
func (k standIn) Log() string      { return "" }

func (k standIn) Seen() *kubeletSeen {
	state := k.State()
	seen := &kubeletSeen{Duplicates: state.Counts.Duplicates, Resources: map[string]resourceSeen{}}
	for name, r := range state.Resources {
		seen.Connections += r.Connections
		var of resourceSeen
		for _, d := range k.Devices(name) {
			switch {
			case r.Connections == 0:
				of.Orphaned = append(of.Orphaned, d.ID)
			case d.Healthy:
				of.Healthy = append(of.Healthy, d.ID)
			default:
				of.Unhealthy = append(of.Unhealthy, d.ID)
			}
		}
		seen.Resources[name] = of
	}
	return seen
}

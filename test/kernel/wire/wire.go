// Package wire has what is said between the tests and the machine, by net/rpc's JSON over a virtio port: the
// arguments and replies of the guest's methods.
package wire

import (
	"time"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// Port is the name of the virtio port.
const Port = "accelmux.kernel"

// Output is what a command printed to stdout and stderr together, and its exit status.
type Output struct {
	Text   string
	Status int
}

// Boot tells the lives of the machine apart: the kernel's boot ID.
type Boot struct{ ID string }

// Request is a pod of one container that wants devices.
type Request struct {
	Pod, Resource string
	Count         int
}

// Allocation is what the container got.
type Allocation struct {
	Devices  []string
	Settings kubelettest.Settings
}

// Container is one to be made by runc, whose bundle is Directory(Name).
type Container struct {
	Name     string
	Settings kubelettest.Settings
}

// Directory is where the bundle of a container is.
func Directory(name string) string { return "/run/containers/" + name }

// Program is an installed program's new file.
type Program struct {
	Path string
	Data []byte
}

// Change is an event of the kernel, or a list that the stand-in kubelet received; by the machine's clock.
type Change struct {
	At time.Time
	// Uevent is "ACTION SUBSYSTEM DEVPATH".
	Uevent string
	// Resource and Devices are of a list: IDs, unhealthy ones with a "!" in front.
	Resource string
	Devices  []string
}

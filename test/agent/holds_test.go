package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
)

// renamed is oneBackend under another resource name, shared is it with replicas.
var (
	renamed = strings.Replace(oneBackend, "example.com/gpu", "example.com/big", 1)
	shared  = strings.Replace(oneBackend, "{name: example.com/gpu}", "{name: example.com/gpu, replicas: 2}", 1)
)

// A device that a container holds is not given to another one because a change of
// the configuration made it another unit, of which kubelet knows no holder. It is
// free again when the holder is gone.
func TestHeldDeviceIsNotGivenOutUnderAnotherName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after, resource string
		was, units, free        int // before the change, and after it: all, and those of devices that are not allocated
	}{
		"the resource is renamed":    {oneBackend, renamed, "example.com/big", 4, 4, 3},
		"replicas become exclusive":  {shared, oneBackend, gpu, 8, 4, 3},
		"exclusive becomes replicas": {oneBackend, shared, gpu, 4, 8, 6},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, c.was, c.before, quickUsage)
			first := n.allocate("first", gpu, 1)[0]
			device, _, _ := strings.Cut(first, "::")
			n.configure(c.after)
			n.wantCounts(c.resource, c.units, c.free)
			n.wantProblem(device, "held-elsewhere", first)
			// Whoever asks for it by name, as kubelet may have before it heard, is refused.
			unit := device
			if c.units > 4 {
				unit += "::0"
			}
			for range 3 {
				if slices.Contains(n.allocate("second", c.resource, 1), unit) {
					t.Errorf("device %s is held and given out again as %s", device, unit)
				}
				n.kubelet.Free("second")
			}
			n.kubelet.Free("first")
			n.wantCounts(c.resource, c.units, c.units)
		})
	}
}

// A device that vanishes while a container holds it stays visible: to kubelet as
// unhealthy, to the operator with its holder. It goes with the holder.
func TestHeldDeviceThatVanishesStaysVisible(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, quickUsage)
	id := n.allocate("pod", gpu, 1)[0]
	n.wantHeldBy(id, "pod")
	n.scenario("devices: {" + id + ": {unplugged: true}}")
	n.wantCounts(gpu, 4, 3)
	n.wantProblem(id, "device-gone")
	if holders := n.device(id).Holders; len(holders) != 1 {
		t.Errorf("the vanished device has the holders %+v, want its pod", holders)
	}
	unhealthy := slices.ContainsFunc(n.kubelet.Devices(gpu), func(d kubelettest.Device) bool { return d.ID == id && !d.Healthy })
	if !unhealthy {
		t.Errorf("kubelet does not see %s as unhealthy", id)
	}
	n.kubelet.Free("pod")
	n.wantCounts(gpu, 3, 3)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
}

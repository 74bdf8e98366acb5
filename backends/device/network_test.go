package device

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/devicetree"
)

// Where sysfs was mounted in a network namespace of the agent, as with PrivateNetwork=yes of its unit, a kind that
// reads interfaces has a problem, and no other kind has.
func TestInterfacesOfTheNodeAreHidden(t *testing.T) {
	t.Parallel()
	const own = "sys/class/net/lo/type: 772\nsys/class/net/sit0/type: 776\n"
	// The directory of the card's interface stays, without the interface.
	const card = "sys/devices/pci0000:00/0000:00:03.0/virtio0/net/\nsys/bus/virtio/devices/virtio0 -> ../../../devices/pci0000:00/0000:00:03.0/virtio0\n"
	for name, c := range map[string]struct {
		tree, preset string
		want         bool
	}{
		"only loopback":              {own + card, "socketcan", true},
		"functions with interfaces":  {own + card, "sriov", true},
		"HCAs":                       {own + card, "rdma", true},
		"an interface of the node":   {own + card + "sys/class/net/eth0/type: 1\n", "socketcan", false},
		"a kind without interfaces":  {own + card, "serial", false},
		"a node without cards":       {own, "socketcan", false},
		"a kernel without a network": {"sys/class/tty/\n", "socketcan", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := list(t, devicetree.New(t, c.tree).Host(), `{"presets": ["`+c.preset+`"]}`)
			if got := strings.Contains(strings.Join(problems, "\n"), "PrivateNetwork=yes"); got != c.want {
				t.Errorf("%q, and the network is hidden: %t", problems, c.want)
			}
		})
	}
}

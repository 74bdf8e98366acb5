package description

import (
	"slices"
	"strings"
)

// OwnNodes returns patterns for the device nodes that objects have themselves; none if they have none, or if the
// description does not have their paths: how the nodes of a class are called is up to its driver.
func (m Match) OwnNodes() []string {
	if m.USB != nil {
		return []string{"/dev/bus/usb/*/*"}
	}
	return slices.DeleteFunc(slices.Clone(m.Paths), func(p string) bool { return !strings.HasPrefix(p, "/dev/") })
}

// nodes checks that a container gets anything of a device.
func (c checker) nodes(at string, k Kind) {
	e, m := k.Edits, k.Match
	if len(e.Nodes)+len(e.Mounts)+len(e.NetDevices)+len(e.Env) > 0 || len(m.OwnNodes()) > 0 {
		return
	}
	switch {
	case m.PCI != nil:
		c.add(at, "a PCI function has no device node of its own: give nodes, such as /dev/vfio/{iommu.group}")
	case m.Class == "net":
		c.add(at, "a network interface has no device node: give netDevices, such as {host: \"{name}\"}, or env")
	case m.Class != "":
		c.add(at, "give nodes that the members of the class %s have, such as /dev/{name}, or env", m.Class)
	case slices.ContainsFunc(m.Paths, func(p string) bool { return strings.HasPrefix(p, "/sys/") }):
		c.add(at, "a directory of /sys does not show its device nodes: give nodes, such as /dev/{name}, or env")
	}
}

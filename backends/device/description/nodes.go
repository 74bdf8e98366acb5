package description

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// nodeDirs are the directories below /dev that have all nodes of classes of the kernel, where they are not those
// of the class's name: what the function devnode of struct class returns (drm_sysfs.c, sound_core.c,
// uverbs_main.c, user_mad.c, device_cdev.c of vfio).
var nodeDirs = map[string]string{
	"drm": "dri", "sound": "snd", "infiniband_verbs": "infiniband", "infiniband_mad": "infiniband", "vfio-dev": "vfio/devices",
}

// moreDirs are those of classes that have nodes in /dev, too, or of which a node has not the name of its member:
// printers and hiddev (usblp.c, hiddev.c), dvb0.frontend0 (dvbdev.c).
var moreDirs = map[string]string{"usbmisc": "usb", "dvb": "dvb/adapter*"}

// nodeNames are patterns for the nodes of classes whose members do not begin with the name of the class
// (v4l2-dev.c, i2c-dev.c, fbmem.c, nvme/host/core.c, scsi/sg.c, virtio_console.c, ppdev.c, drm_dp_aux_dev.c; cdc-wdm.c and
// usbtmc.c, which are the drivers of usbmisc that have nodes in /dev and are in use).
var nodeNames = map[string][]string{
	"video4linux": {"video*", "vbi*", "radio*", "swradio*", "v4l-subdev*", "v4l-touch*"},
	"i2c-dev":     {"i2c-*"}, "graphics": {"fb*"}, "nvme-generic": {"ng*"}, "scsi_generic": {"sg*"}, "usbmisc": {"cdc-wdm*", "usbtmc*"},
	"virtio-ports": {"vport*"}, "ppdev": {"parport*"}, "drm_dp_aux_dev": {"drm_dp_aux*"},
}

// miscNodes are the nodes of members of the class misc that have another path than their name (nodename of
// struct miscdevice in tun.c, vfio_main.c, hw_random/core.c, infiniband/core/ucma.c).
var miscNodes = map[string]string{"tun": "net/tun", "vfio": "vfio/vfio", "hw_random": "hwrng", "rdma_cm": "infiniband/rdma_cm"}

// withoutNodes are classes of the kernel whose members have no device nodes.
var withoutNodes = []string{
	"backlight", "bluetooth", "fpga_bridge", "fpga_manager", "fpga_region", "hwmon", "ieee80211", "infiniband", "leds", "net",
	"power_supply", "regulator", "scsi_host", "thermal", "udc",
}

// OwnNodes returns patterns for the device nodes that objects have themselves; none if they have none, or if
// the paths of these are not known before there is one. The nodes of a class that is not known here are in /dev by the
// names of its members, which mostly begin with that of the class, or in a directory by that of the class.
func (m Match) OwnNodes() []string {
	switch {
	case m.USB != nil:
		return []string{"/dev/bus/usb/*/*"}
	case m.Class == "":
		return slices.DeleteFunc(slices.Clone(m.Paths), func(p string) bool { return !strings.HasPrefix(p, "/dev/") })
	case slices.Contains(withoutNodes, m.Class), m.Class == "misc" && len(m.Names) == 0:
		return nil
	}
	names := m.Names
	if dir, ok := nodeDirs[m.Class]; ok {
		if len(names) == 0 {
			names = []string{"*"}
		}
		return below(path.Join("/dev", dir), names)
	}
	if len(names) == 0 {
		names = nodeNames[m.Class]
	}
	all := []string{path.Join("/dev", cmp.Or(moreDirs[m.Class], m.Class), "*")}
	for _, name := range names {
		name = strings.ReplaceAll(name, "!", "/") // as device_get_devnode does in drivers/base/core.c
		if node, ok := miscNodes[name]; ok && m.Class == "misc" {
			name = node
		}
		all = append(all, "/dev/"+name)
	}
	if len(names) == 0 {
		all = append(all, "/dev/"+m.Class+"*")
	}
	return all
}

func below(dir string, names []string) (all []string) {
	for _, name := range names {
		all = append(all, path.Join(dir, name))
	}
	return all
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
	case m.Class == "misc":
		c.add(at, "the members of the class misc have nodes in different directories: give match.names, or nodes")
	case m.Class != "":
		c.add(at, "the members of the class %s have no device nodes of their own: give nodes, or env", m.Class)
	case len(m.Paths) > 0:
		c.add(at, "a directory of /sys does not show its device nodes: give nodes, such as /dev/{name}, or env")
	}
}

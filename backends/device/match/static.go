package match

import "github.com/accelmux/accelmux/backends/devnode"

// staticNodes are device nodes that are there before the module of their driver is loaded, by their paths
// below /dev: opening one has the kernel load it. The numbers are fixed (Documentation/admin-guide/devices.txt).
// The modules name them (MODULE_ALIAS("devname:...")), depmod lists those of a kernel in modules.devname, and
// systemd-tmpfiles makes them from that (kmod-static-nodes.service), so a module for a node that is there exists.
// Not here are those that no container gets, such as mapper/control.
var staticNodes = map[string]devnode.Number{
	"cuse":        {Major: 10, Minor: 203},
	"fuse":        {Major: 10, Minor: 229},
	"net/tun":     {Major: 10, Minor: 200},
	"ppp":         {Major: 108, Minor: 0},
	"rfkill":      {Major: 10, Minor: 242},
	"snd/seq":     {Major: 116, Minor: 1},
	"snd/timer":   {Major: 116, Minor: 33},
	"uhid":        {Major: 10, Minor: 239},
	"uinput":      {Major: 10, Minor: 223},
	"userio":      {Major: 10, Minor: 240},
	"vfio/vfio":   {Major: 10, Minor: 196},
	"vhci":        {Major: 10, Minor: 137},
	"vhost-net":   {Major: 10, Minor: 238},
	"vhost-vsock": {Major: 10, Minor: 241},
}

// isStatic reports whether a node, by its path below /dev, is one of [staticNodes].
func isStatic(name string, number devnode.Number) bool {
	want, ok := staticNodes[name]
	return ok && number == want
}

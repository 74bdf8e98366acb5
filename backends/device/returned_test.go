package device

import (
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A network interface that a container has is not on the host and not listed, without a problem,
// though its hardware is there; back again it is the same device. One that the kernel moved back under
// another name is a problem.
func TestInterfaceInContainer(t *testing.T) {
	t.Parallel()
	const id, dir = "socketcan-1d50-606f-port-0000:00:14.0-4-if0", "devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4:1.0/net/can2"
	run(t, "socketcan", "", `{"presets": ["socketcan"], "interval": "1h"}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		r.change("- sys/"+dir+"\n- sys/class/net/can2", uevent.Remove, "/"+dir, "net")
		r.device(id, "is gone", nil)
		if problems := r.Last.GetProblems(); len(problems) > 0 {
			t.Errorf("problems %v", problems)
		}
		r.change("sys/"+dir+"/type: 280\nsys/"+dir+"/dev_id: 0x0\nsys/"+dir+"/dev_port: 0\nsys/"+dir+"/device -> ../../../1-4:1.0\n"+
			"sys/"+dir+"/operstate: up\nsys/class/net/can2 -> ../../"+dir, uevent.Add, "/"+dir, "net")
		r.device(id, "is back", healthy)
		const returned = "sys/devices/virtual/net/data0/ifalias: left motor accelmux:can9:17,18\nsys/class/net/data0 -> ../../devices/virtual/net/data0"
		r.change(returned, uevent.Add, "/devices/virtual/net/data0", "net")
		r.Until("the problem", func(inv *backendv1.Inventory) bool {
			return strings.Contains(strings.Join(inv.GetProblems(), ""), `"can9" has the name "data0", as its pod ended without the hook`)
		})
		r.change("sys/devices/virtual/net/data0/ifalias: left motor accelmux:eth9:17", uevent.Change, "/devices/virtual/net/data0", "net")
		r.Until("no problem with one of no kind", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 0 })
	})
}

// An interface that the kernel moved back to the node is down: nothing may get it before it is set up. That is so
// for any kind, also under its own name; an interface that is down without having been in a container is none of that.
func TestInterfaceThatCameBackDown(t *testing.T) {
	t.Parallel()
	const id, dir = "bus-bus0", "sys/devices/virtual/net/bus0/"
	const tree = dir + "type: 1\n" + dir + "flags: 0x1002\n" + dir + "operstate: down\nsys/class/net/bus0 -> ../../devices/virtual/net/bus0\n"
	run(t, "", tree+dir+"ifalias: left motor", `{"interval": "10s", "kinds": [{"name": "bus", "match": {"class": "net"}, "edits": {"netDevices": [{"host": "{name}"}]}}]}`, func(r *rig) {
		r.device(id, "is healthy", healthy)
		r.tree.Change(t, dir+"ifalias: left motor accelmux:bus0:17,18")
		r.device(id, "has a fault", hasFault("interface-down", "set it up (ip link set dev bus0 up)"))
		r.tree.Change(t, dir+"flags: 0x1003")
		r.device(id, "is healthy again", healthy)
	})
}

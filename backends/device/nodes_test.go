package device

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
)

// A node that has another number than the kernel reports is a fault, and so is one that is
// missing, until it is there.
func TestNodeIsChecked(t *testing.T) {
	t.Parallel()
	run(t, "kvm", "- dev/kvm", `{"presets": ["kvm"]}`, func(r *rig) {
		r.device("kvm", "has a fault", hasFault("node-missing", "/dev/kvm is missing"))
		r.tree.Change(t, "dev/kvm: c 10:232") // the engine scans again on its own
		r.device("kvm", "is healthy", healthy)
	})
}

// A node that is another device than the kernel reports is given to no container.
func TestNodeOfAnotherDevice(t *testing.T) {
	t.Parallel()
	run(t, "kvm", "dev/kvm -> /dev/null", `{"presets": ["kvm"]}`, func(r *rig) {
		r.device("kvm", "has a fault", hasFault("node-missing", "device node /dev/kvm is the device 1:3, want 10:232"))
	})
}

// A static node, which is there before its driver's module and whose opening loads that, is the same healthy device
// before the module is loaded, after, and when it was unloaded; one that is removed is none.
func TestStaticNodes(t *testing.T) {
	t.Parallel()
	for preset, node := range map[string]struct{ path, number, class, named string }{
		"tun": {"net/tun", "10:200", "misc", "tun"}, "fuse": {"fuse", "10:229", "misc", "fuse"},
		"vhost-net": {"vhost-net", "10:238", "misc", "vhost-net"}, "vhost-vsock": {"vhost-vsock", "10:241", "misc", "vhost-vsock"},
		"sequencer": {"snd/seq", "116:1", "sound", "seq"},
	} {
		settings := `{"presets": ["` + preset + `"]}`
		if preset == "sequencer" {
			settings = `{"kinds": [{"name": "sequencer", "id": "{kind}", "match": {"paths": ["/dev/` + node.path + `"]}}]}`
		}
		dir := "devices/virtual/" + node.class + "/" + node.named
		run(t, "", "dev/"+node.path+": c "+node.number, settings, func(r *rig) {
			d := r.device(preset, "is healthy", healthy)
			if nodes := d.GetEdits().GetDeviceNodes(); len(nodes) != 1 || nodes[0].GetPath() != "/dev/"+node.path || len(r.Last.GetProblems()) > 0 {
				t.Errorf("nodes %v, problems %q", nodes, r.Last.GetProblems())
			}
			stays := func(what string) {
				r.During(func() { <-time.After(time.Minute) })
				if r.Last != nil && (len(r.Last.GetDevices()) != 1 || len(r.Last.GetProblems()) > 0) {
					t.Errorf("%s: %v", what, r.Last)
				}
				r.device(preset, "is healthy", healthy)
			}
			r.change("sys/"+dir+"/dev: "+node.number+"\nsys/dev/char/"+node.number+" -> ../../"+dir, uevent.Add, "/"+dir, node.class, "DEVNAME="+node.path)
			stays("loaded")
			r.change("- sys/"+dir+"\n- sys/dev/char/"+node.number, uevent.Remove, "/"+dir, node.class, "DEVNAME="+node.path)
			stays("unloaded")
			r.tree.Change(t, "- dev/"+node.path)
			r.device(preset, "is gone", nil)
		})
	}
}

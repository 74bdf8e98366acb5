package device

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/uevent"
	"github.com/accelmux/accelmux/test/devicetree"
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

// A node that is elsewhere than the kind's name or class says must be named: the core is told
// what a kind needs before there is a device.
func TestNodeElsewhere(t *testing.T) {
	t.Parallel()
	const npu = `sys/devices/virtual/acme/npu0/uevent: MAJOR=240\nMINOR=0\nDEVNAME=other/npu0` + "\nsys/class/acme/npu0 -> ../../devices/virtual/acme/npu0\ndev/other/npu0: c 240:0"
	run(t, "", npu, `{"kinds": [{"name": "npu", "match": {"class": "acme", "names": ["npu0"]}}]}`, func(r *rig) {
		r.device("npu-npu0", "has a fault", hasFault("node-missing", "give the kind edits: {nodes: [{path: /dev/other/npu0}]}"))
		r.configure(`{"kinds": [{"name": "npu", "match": {"class": "acme", "names": ["npu0"]}, "edits": {"nodes": [{"path": "/dev/other/npu0"}]}}]}`)
		r.device("npu-npu0", "is healthy", healthy)
	})
}

// A kind of a class of the kernel has the nodes of its members without edits, wherever the kernel has them, and
// declares them.
func TestNodesOfClasses(t *testing.T) {
	t.Parallel()
	for node, match := range map[string]string{
		"dri/renderD128": `"class": "drm"`, "dri/card0": `"class": "drm", "names": ["card[0-9]*"]`, "snd/controlC0": `"class": "sound"`,
		"infiniband/uverbs0": `"class": "infiniband_verbs"`, "infiniband/umad0": `"class": "infiniband_mad"`, "accel/accel0": `"class": "accel"`,
		"vfio/devices/vfio0": `"class": "vfio-dev"`, "vfio/12": `"class": "vfio"`, "video0": `"class": "video4linux"`, "fb0": `"class": "graphics"`,
		"i2c-1": `"class": "i2c-dev"`, "net/tun": `"class": "misc", "names": ["tun"]`, "hwrng": `"class": "misc", "names": ["hw_random"]`, "tpm0": `"class": "tpm"`,
		"ng0n1": `"class": "nvme-generic"`, "sg0": `"class": "scsi_generic"`, "vport1p1": `"class": "virtio-ports"`, "parport0": `"class": "ppdev"`,
		"cdc-wdm0": `"class": "usbmisc"`, "usbtmc0": `"class": "usbmisc", "names": ["usbtmc*"]`, "usb/lp0": `"class": "usbmisc"`,
		"usb/hiddev0": `"class": "usbmisc", "names": ["hiddev*"]`, "dvb/adapter0/frontend0": `"class": "dvb", "names": ["dvb0.frontend*"]`,
		"drm_dp_aux0": `"class": "drm_dp_aux_dev"`, "infiniband/rdma_cm": `"class": "misc", "names": ["rdma_cm"]`,
		"rngd/npu0mgmt": `"class": "rngd_mgmt", "names": ["rngd!npu*mgmt"]`,
	} {
		settings := `{"edits": {"groups": "none"}, "kinds": [{"name": "own", "match": {` + match + `}}]}`
		class := strings.Split(match, `"`)[3]
		name := cmp.Or(map[string]string{
			"hwrng": "hw_random", "dvb/adapter0/frontend0": "dvb0.frontend0", "rngd/npu0mgmt": "rngd!npu0mgmt",
		}[node], path.Base(node))
		tree := devicetree.New(t, "sys/devices/virtual/"+class+"/"+name+`/uevent: MAJOR=240\nMINOR=7\nDEVNAME=`+node+"\nsys/class/"+class+"/"+name+
			" -> ../../devices/virtual/"+class+"/"+name+"\ndev/"+node+": c 240:7")
		b, _ := on(t, tree.Host(), settings)
		devices, problems := list(t, tree.Host(), settings)
		if len(devices) != 1 || !healthy(devices[0]) || devices[0].GetEdits().GetDeviceNodes()[0].GetPath() != "/dev/"+node || len(problems) > 0 {
			t.Errorf("%s: %v, problems %q", match, devices, problems)
		}
		if !slices.ContainsFunc(b.Needs().GetDeviceNodes(), func(p string) bool { ok, _ := path.Match(p, "/dev/"+node); return ok }) {
			t.Errorf("%s: needs %q", match, b.Needs().GetDeviceNodes())
		}
	}
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

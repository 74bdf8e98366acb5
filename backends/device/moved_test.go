package device

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A function whose interface, or whose HCA (rdma system set netns exclusive), is in another network namespace is the
// same device with the same attributes, also for a backend that starts meanwhile; one that lost its driver is not. Sysfs
// shows no member of another namespace than that in which it was mounted, but the directory of the class (ns_type of the
// kernel's classes net and infiniband; sysfs_init_fs_context in fs/sysfs/mount.c).
func TestInterfaceInAnotherNamespace(t *testing.T) {
	t.Parallel()
	const dir, id, second = "sys/devices/pci0000:3a/0000:3b:00.0/", "0000:3b:00.0", "0000:3b:00.1"
	function := strings.ReplaceAll("sys/bus/pci/devices/ID -> ../../../devices/pci0000:3a/ID\nDIR/vendor: 0x15b3\nDIR/device: 0x1017\nDIR/class: 0x020000\n"+
		"DIR/driver -> ../../../bus/pci/drivers/mlx5_core\nDIR/net/NET/type: 1\nDIR/infiniband/HCA/ports/1/pkeys/0: 0x8001\n", "DIR", "sys/devices/pci0000:3a/ID")
	with := func(id, net, hca string) string {
		return strings.NewReplacer("ID", id, "NET", net, "HCA", hca).Replace(function)
	}
	settings := `{"kinds": [{"name": "nic", "id": "{pci.address}", "match": {"pci": {"classes": ["02"]}, "where": "` +
		`self.names(\"net/*\").exists(n, n.startsWith(\"ens1\") && self.text(\"net/\" + n + \"/type\") == \"1\" && self.has(\"net/\" + n)) && ` +
		`self.names(\"infiniband/*\").exists(h, self.text(\"infiniband/\" + h + \"/ports/1/pkeys/0\") == \"0x8001\")"},
		"attributes": {"interfaces": "self.names(\"net/*\")", "rdma": "self.names(\"infiniband/*\")"}, "edits": {"env": {"NIC": "{self.names(\"net/*\")[0]}"}},
		"health": [{"fault": "down", "when": "self.has(\"net/ens1f0\") && self.text(\"net/ens1f0/type\") != \"1\""}]}]}`
	run(t, "", with(id, "ens1f0", "mlx5_0"), settings, func(r *rig) {
		withoutLinks := func(d *backendv1.Device) *backendv1.Device {
			also, _ := proto.Clone(d).(*backendv1.Device)
			also.Links = nil
			return also
		}
		before := withoutLinks(r.device(id, "is healthy", healthy))
		same := func(what string) {
			t.Helper()
			if now := r.device(id, what, func(*backendv1.Device) bool { return true }); !proto.Equal(before, withoutLinks(now)) {
				t.Errorf("%s: %v, want %v", what, now, before)
			}
		}
		r.change("- "+dir+"net/ens1f0\n- "+dir+"infiniband/mlx5_0\n"+with(second, "ens1f1", "mlx5_1"), uevent.Add, "/devices/pci0000:3a/"+second, "pci")
		r.device(second, "was found", healthy)
		same("in a pod")
		r.start(settings)
		same("after a restart")
		r.change(dir+"net/ens1f7/type: 1\n"+dir+"infiniband/mlx5_0/ports/1/pkeys/0: 0x8001", uevent.Add, "/devices/pci0000:3a/"+id, "pci")
		r.device(id, "is back under another name", func(d *backendv1.Device) bool { return d.GetEdits().GetEnv()["NIC"] == "ens1f7" })
		r.change("- "+dir+"net\n- "+dir+"driver", uevent.Unbind, "/devices/pci0000:3a/"+id, "pci")
		r.device(id, "has no driver", hasFault("driver-unbound", ""))
	})
}

// An interface whose name changes is found in time, and one whose link type does at the next scan, without an event: there are
// none of interfaces in the backend's network namespace.
func TestInterfaceWithoutEvents(t *testing.T) {
	t.Parallel()
	const dir = "sys/devices/pci0000:00/0000:01:00.0/"
	settings := `{"kinds": [{"name": "acme", "match": {"pci": {"vendors": ["1234"]}}, "attributes": {"interfaces": "self.names(\"net/*\")", "type": "self.text(\"net/ens1f0/type\")"},
		"edits": {"env": {"A": "1"}}}]}`
	link := func(name string) string {
		return "sys/class/net/" + name + " -> ../../" + strings.TrimPrefix(dir, "sys/") + "net/" + name + "\n"
	}
	run(t, "", acme+dir+"net/eth0/type: 1\n"+link("eth0"), settings, func(r *rig) {
		has := func(attribute, value string) func(*backendv1.Device) bool {
			return func(d *backendv1.Device) bool { return strings.Contains(d.GetAttributes()[attribute].String(), value) }
		}
		r.device(acmeID, "has its first name", has("interfaces", "eth0"))
		for range 15 { // until no scan follows an event any more
			r.During(func() { <-time.After(time.Minute) })
		}
		in := func(what string, limit time.Duration, lines string, want func(*backendv1.Device) bool) {
			t.Helper()
			r.within(limit, lines, acmeID, what, want)
		}
		in("has another name", inTime, "- "+dir+"net/eth0\n- sys/class/net/eth0\n"+dir+"net/ens1f0/type: 1\n"+link("ens1f0"), has("interfaces", "ens1f0"))
		r.During(func() { <-time.After(time.Minute) })
		for _, inv := range r.During(func() { // the interface of a pod
			r.tree.Change(t, "sys/class/net/veth1 -> ../../devices/virtual/net/veth1")
			<-time.After(time.Minute)
		}) {
			t.Errorf("published again: %v", inv)
		}
		in("has another link type", scanInterval+inTime, dir+"net/ens1f0/type: 32", has("type", "32"))
	})
}

package hostile

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// lies are about devices. Where that is possible the sound devices are listed, too: they
// must stay.
func lies() []Misdeed {
	type inventory = backendv1.Inventory
	add := func(name, what string, lie func(*inventory)) Misdeed {
		return Misdeed{Name: name, Group: Lies, What: what, lie: lie}
	}
	return []Misdeed{
		{
			Name: "garbled-name", Group: Lies, What: "answers Configure with a name that is no UTF-8", Call: "Configure",
			reply: replies(func(r *backendv1.ConfigureResponse) {
				r.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte("M\xfcller")))
			}),
		},
		{
			Name: "another-version", Group: Lies, What: "answers Configure with another version than its manifest's", Call: "Configure",
			reply: replies(func(r *backendv1.ConfigureResponse) { r.Version = "6.6.6" }),
		},
		add("duplicate-ids", "lists an ID twice", func(i *inventory) {
			i.Devices = append(i.Devices, device(i.GetDevices()[0].GetId()))
		}),
		add("paths-outside", "gives absolute paths outside the policy to containers", func(i *inventory) {
			i.Devices = append(i.Devices, withNode("outside", "/etc/shadow"), withNode("memory", "/dev/mem"), withMount("root", "/"))
		}),
		add("numbers-of-others", "gives numbers of a disk, of memory and of another device to containers, as nodes of its own", func(i *inventory) {
			i.Devices = append(i.Devices, withNumber("disk", "b", 8, 0), withNumber("memory", "c", 1, 1), withNumber("tty", "c", 4, 1))
		}),
		{
			Name: "nan-metrics", Group: Lies, What: "measures what is no number", Call: "Sample",
			sample: func(stream sampleStream) error {
				if err := stream.Send(&backendv1.SampleResponse{Metrics: []*backendv1.Metric{
					metric("power_watts", math.NaN()), metric("temperature_celsius", math.Inf(1)), metric("load_ratio", 0.5),
				}}); err != nil {
					return err
				}
				<-stream.Context().Done()
				return nil
			},
		},
		add("unread-foreign", "could not look at 10,000 devices that nobody knows", func(i *inventory) {
			for n := range 10_000 {
				i.Unread = append(i.Unread, &backendv1.Unread{DeviceId: fmt.Sprint("foreign-", n), PciBusId: "0000:00:00.0", Reason: "line\nbreak \x1b]0;title\a"})
			}
		}),
		add("unread-listed", "could not look at the devices that it lists, nor at any, nor at what has no name", func(i *inventory) {
			for _, d := range i.GetDevices() {
				i.Unread = append(i.Unread, &backendv1.Unread{DeviceId: d.GetId()})
			}
			i.Unread = append(i.Unread, &backendv1.Unread{}, &backendv1.Unread{DeviceId: "../..", PciBusId: "7"})
		}),
		add("generation-again", "sends another inventory under the same generation", func(i *inventory) {
			i.Generation--
		}),
		add("garbled-devices", "lists devices of which none has a class", func(i *inventory) {
			for _, d := range i.GetDevices() {
				d.Class = ""
			}
		}),
		add("negative-weights", "has links of a negative weight, and negative amounts", func(i *inventory) {
			weight := int64(-1) // as a C program would write it
			i.Devices[0].Links = append(i.Devices[0].Links, &backendv1.Link{
				PeerId: i.GetDevices()[1].GetId(), Kind: backendv1.LinkKind_LINK_KIND_OTHER, Distance: uint32(weight),
			})
			negative := device("negative")
			negative.Capacities = map[string]int64{"memory": -1}
			i.Devices = append(i.Devices, negative)
		}),
		add("control-characters", "has control characters in IDs and words", func(i *inventory) {
			i.Devices = append(i.Devices, device("red\x1b[31m\nand\x00more"))
			i.Devices[0].Health = &backendv1.Health{
				State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "hot", Recovery: backendv1.Recovery_RECOVERY_SELF,
				Message: "line\nbreak \x1b]0;title\a",
			}
			i.Problems = append(i.Problems, "a problem \x1b[2J of the screen's")
		}),
		add("invalid-utf8", "sends text that is no UTF-8 as an ID and as a path", func(i *inventory) {
			field := func(number protowire.Number, content ...[]byte) []byte {
				return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(content, nil))
			}
			bad := []byte("bad-\xff\xfe")
			path := field(11, field(2, field(1, []byte("/dev/"), bad))) // edits.device_nodes.path
			// Go's own encoder refuses to write this.
			i.ProtoReflect().SetUnknown(slices.Concat(
				field(2, field(1, bad), field(2, []byte("gpu"))),
				field(2, field(1, []byte("bad-path")), field(2, []byte("gpu")), path)))
		}),
	}
}

func withNode(id, hostPath string) *backendv1.Device {
	d := device(id)
	d.Edits = &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/" + id, HostPath: hostPath}}}
	return d
}

// withNumber is a device with a node that its manifest has and this machine has not.
func withNumber(id, kind string, major, minor uint32) *backendv1.Device {
	d := device(id)
	d.Edits = &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: "/dev/hostile", Type: kind, Major: major, Minor: minor}}}
	return d
}

func withMount(id, hostPath string) *backendv1.Device {
	d := device(id)
	d.Edits = &backendv1.ContainerEdits{Mounts: []*backendv1.Mount{{HostPath: hostPath, ContainerPath: "/host", Writable: true}}}
	return d
}

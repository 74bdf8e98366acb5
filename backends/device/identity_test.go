package device

import (
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/devicetree"
)

// IDs of a user's kinds: what the kernel counts is shown wherever the ID has it, what identifies the hardware is
// used where there is any, and what is too long is shortened so that it stays different.
func TestIDsOfUsersKinds(t *testing.T) {
	t.Parallel()
	const usb = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
	tree := devicetree.New(t, `
sys/devices/virtual/acme/acme3/x: x
sys/class/acme/acme3 -> ../../devices/virtual/acme/acme3
sys/devices/virtual/misc/kvm/x: x
sys/class/misc/kvm -> ../../devices/virtual/misc/kvm
sys/devices/platform/rtc.0/rtc/rtc0/device -> ../../../rtc.0
sys/class/rtc/rtc0 -> ../../devices/platform/rtc.0/rtc/rtc0
sys/devices/platform/serial.0/tty/ttyX4/device -> ../../../serial.0
sys/devices/platform/serial.0/tty/ttyX5/device -> ../../../serial.0
sys/class/ttyX/ttyX4 -> ../../devices/platform/serial.0/tty/ttyX4
sys/class/ttyX/ttyX5 -> ../../devices/platform/serial.0/tty/ttyX5
sys/devices/platform/cam.0/video4linux/video2/device -> ../../../cam.0
sys/devices/platform/cam.0/video4linux/video2/index: 0
sys/devices/platform/cam.0/video4linux/video3/device -> ../../../cam.0
sys/devices/platform/cam.0/video4linux/video3/index: 1
sys/class/video4linux/video2 -> ../../devices/platform/cam.0/video4linux/video2
sys/class/video4linux/video3 -> ../../devices/platform/cam.0/video4linux/video3
`+usb+"idVendor: 0403\n"+usb+"idProduct: 6001\n"+usb+"busnum: 1\n"+usb+"devnum: 5\n"+usb+"serial: "+strings.Repeat("S", 80)+`
sys/bus/usb/devices/1-2 -> ../../../devices/pci0000:00/0000:00:14.0/usb1/1-2
sys/devices/pci0000:00/0000:00:14.0/usb1/idVendor: 1d6b
sys/devices/pci0000:00/0000:00:14.0/usb1/idProduct: 0002
sys/devices/pci0000:00/0000:00:14.0/usb1/serial: 0000:00:14.0
sys/bus/usb/devices/usb1 -> ../../../devices/pci0000:00/0000:00:14.0/usb1
`)
	for kind, want := range map[string][]string{
		`"match": {"class": "acme"}`: {"k-acme3 counted"},
		`"match": {"class": "acme"}, "id": "{kind}-{name.replace('acme', 'n')}"`:         {"k-n3 counted"},
		`"match": {"class": "acme"}, "id": "{kind}-{self.text('x')}"`:                    {"k-x"},
		`"match": {"class": "misc", "names": ["kvm"]}, "id": "{kind}-{name}"`:            {"k-kvm"},
		`"match": {"class": "rtc"}`:                                                      {"k-rtc.0"},
		`"match": {"class": "rtc"}, "id": "{name}"`:                                      {"rtc0 counted"},
		`"match": {"class": "ttyX"}`:                                                     {"k-serial.0-ttyX4 counted", "k-serial.0-ttyX5 counted"},
		`"match": {"class": "video4linux"}`:                                              {"k-cam.0", "k-cam.0-1"},
		`"match": {"class": "video4linux"}, "mergeBy": "{self.link('device')}"`:          {"k-cam.0"},
		`"match": {"class": "video4linux", "where": "name == 'video3'"}, "mergeBy": "m"`: {"k-cam.0"},
		`"match": {"usb": {"vendors": ["0403"]}}`:                                        {"k-0403-6001-" + strings.Repeat("S", 42) + "-ac286ef0"},
		`"match": {"usb": {"vendors": ["1d6b"]}}`:                                        {"k-1d6b-0002-port-0000:00:14.0-0"},
		`"match": {"usb": {"vendors": ["0403"]}}, "id": "{kind}-{usb.port}"`:             {"k-0000:00:14.0-2"},
		`"match": {"usb": {"vendors": ["0403"]}}, "id": "{usb.busNumber}"`:               {"1 counted"},
		`"match": {"usb": {"vendors": ["0403"]}}, "id": "x{usb.deviceNumber}"`:           {"x5 counted"},
	} {
		devices, _ := list(t, tree.Host(), `{"edits": {"groups": "none"}, "kinds": [{"name": "k", "edits": {"nodes": [{"path": "/dev/{name}"}]}, `+kind+`}]}`)
		var got []string
		for _, d := range devices {
			id := d.GetId()
			if d.GetAttributes()["countedID"].GetBoolValue() {
				id += " counted"
			}
			got = append(got, id)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// A USB device whose serial number another one has is a twin also while the other is not listed: without
// driver, or with its network interface in a container. Else its ID would change with the other's state.
func TestTwinThatIsNotListed(t *testing.T) {
	t.Parallel()
	one := twin("1-2", 0)
	const other = `
sys/devices/platform/dummy_hcd.0/usb2/2-2/idVendor: 1a86
sys/devices/platform/dummy_hcd.0/usb2/2-2/idProduct: 7523
sys/devices/platform/dummy_hcd.0/usb2/2-2/serial: 0001
sys/bus/usb/devices/2-2 -> ../../../devices/platform/dummy_hcd.0/usb2/2-2
`
	for lines, want := range map[string]string{
		"":    "serial-1a86-7523-0001-if0",
		other: "serial-1a86-7523-port-0000:00:14.0-2-if0",
		strings.ReplaceAll(other, "serial: 0001", "serial: 0002"): "serial-1a86-7523-0001-if0",
	} {
		devices, problems := list(t, devicetree.New(t, one+lines).Host(), `{"presets": ["serial"], "edits": {"groups": "none"}}`)
		if len(devices) != 1 || devices[0].GetId() != want {
			t.Errorf("%v, want %s", devices, want)
		}
		if twins := strings.Contains(strings.Join(problems, ""), "1-2, 2-2 have the same"); twins != strings.Contains(want, "port") {
			t.Errorf("%s: problems %q", want, problems)
		}
	}
}

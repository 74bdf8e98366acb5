package uevent

import (
	"maps"
	"strings"
	"testing"
)

// Messages as the kernel writes them, complete and malformed.
func TestParse(t *testing.T) {
	const header = "bind@/devices/pci0000:00/0000:00:01.0/0000:01:00.0\x00"
	for message, want := range map[string]Event{
		header + "ACTION=bind\x00SUBSYSTEM=pci\x00DRIVER=nvidia\x00PCI_ID=10DE:2330\x00SEQNUM=826\x00": {
			Bind, "/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "pci",
			map[string]string{"ACTION": "bind", "SUBSYSTEM": "pci", "DRIVER": "nvidia", "PCI_ID": "10DE:2330", "SEQNUM": "826"},
		},
		// A value may contain anything but a zero byte; a name may not be empty.
		"add@/module/x\x00SUBSYSTEM=module\x00A=b=c\x00=d\x00e\x00\x00A=\x00": {
			Add, "/module/x", "module", map[string]string{"SUBSYSTEM": "module", "A": ""},
		},
		"remove@/x":  {Action: Remove, DevPath: "/x", Properties: map[string]string{}},
		"a@/b@c\x00": {Action: "a", DevPath: "/b@c", Properties: map[string]string{}},
	} {
		got, err := Parse([]byte(message))
		if err != nil || got.Action != want.Action || got.DevPath != want.DevPath || got.Subsystem != want.Subsystem ||
			!maps.Equal(got.Properties, want.Properties) {
			t.Errorf("%q: %+v, %v, want %+v", message, got, err, want)
		}
	}
	for _, message := range []string{"", "\x00", "add", "@/x", "add@", "add@x\x00A=b\x00", "libudev\x00\xfe\xed\xca\xfe", "add\x00@/x\x00"} {
		if got, err := Parse([]byte(message)); err == nil {
			t.Errorf("%q is %+v, want an error", message, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("change@/devices/virtual/mem/null\x00ACTION=change\x00DEVPATH=/devices/virtual/mem/null\x00SUBSYSTEM=mem\x00"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe"))
	f.Fuzz(func(t *testing.T, message []byte) {
		event, err := Parse(message)
		if err != nil {
			return
		}
		if event.Action == "" || !strings.HasPrefix(event.DevPath, "/") || event.Subsystem != event.Properties["SUBSYSTEM"] {
			t.Errorf("%q is %+v", message, event)
		}
		for name, value := range event.Properties {
			if name == "" || strings.ContainsAny(name, "\x00=") || strings.Contains(value, "\x00") {
				t.Errorf("%q has the property %q = %q", message, name, value)
			}
		}
	})
}

// Only what the kernel did shows that a device was set up, not what a program has it send again.
func TestIsSetUp(t *testing.T) {
	for message, want := range map[string]bool{
		"add@/devices/x\x00SUBSYSTEM=pci": true, "bind@/devices/x\x00DRIVER=d": true, "change@/devices/x": false, "unbind@/devices/x": false,
		"add@/devices/x\x00SYNTH_UUID=0": false, "bind@/devices/x\x00SYNTH_UUID=ad27f36c-09f6-4ea7-9c64-1b1b1a3f6a2f": false,
	} {
		if e, err := Parse([]byte(message)); err != nil || e.IsSetUp() != want {
			t.Errorf("%q: %v, %v", message, e.IsSetUp(), err)
		}
	}
}

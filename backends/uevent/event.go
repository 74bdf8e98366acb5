package uevent

import (
	"bytes"
	"errors"
	"strings"
)

// Action is what happened to a device.
type Action string

// The actions of Linux (enum kobject_action in include/linux/kobject.h); a later kernel may have
// more.
const (
	Add     Action = "add"
	Remove  Action = "remove"
	Change  Action = "change"
	Move    Action = "move"
	Online  Action = "online"
	Offline Action = "offline"
	// Bind and Unbind: a driver took or left a device; since Linux 4.14.
	Bind   Action = "bind"
	Unbind Action = "unbind"
	// Missed is not from the kernel: events were dropped, and the reader has to scan. Such an
	// event has no other fields.
	Missed Action = "missed"
)

// Event is one message of the kernel.
type Event struct {
	Action Action
	// DevPath is the device's directory in sysfs, without its root:
	// "/devices/pci0000:00/0000:00:01.0", "/module/nvidia".
	DevPath string
	// Subsystem is "pci", "drm", "module" …
	Subsystem string
	// Properties are all those of the event, including the ones above: "PCI_ID", "DRIVER" …
	// Their names depend on the device.
	Properties map[string]string
}

// IsSetUp reports whether the kernel added the device, or a driver took it. A program can have the kernel send
// such events of devices as they are, as udevadm trigger does; they have SYNTH_UUID
// (Documentation/ABI/testing/sysfs-uevent).
func (e Event) IsSetUp() bool {
	_, synthetic := e.Properties["SYNTH_UUID"]
	return (e.Action == Add || e.Action == Bind) && !synthetic
}

// maxMessage bounds a message. The kernel's messages have at most 2 KiB of properties
// (UEVENT_BUFFER_SIZE in include/linux/kobject.h), after a path.
const maxMessage = 8 << 10

var errNoUevent = errors.New("the message is no uevent: it begins with no action@/devpath")

// Parse parses a message as the kernel writes it: "action@/devpath", and then properties as
// KEY=value, each followed by a zero byte. Malformed properties are left out; of two with one
// name the last counts.
func Parse(message []byte) (Event, error) {
	header, rest, _ := bytes.Cut(message, []byte{0})
	action, path, ok := strings.Cut(string(header), "@")
	if !ok || action == "" || !strings.HasPrefix(path, "/") {
		return Event{}, errNoUevent
	}
	event := Event{Action: Action(action), DevPath: path, Properties: map[string]string{}}
	for word := range bytes.SplitSeq(rest, []byte{0}) {
		if name, value, ok := strings.Cut(string(word), "="); ok && name != "" {
			event.Properties[name] = value
		}
	}
	event.Subsystem = event.Properties["SUBSYSTEM"]
	return event, nil
}

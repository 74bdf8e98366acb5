package nvml

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is what the library answers: the keys and values of its file, as
// README.md has them.
type State map[string]string

// All stands for every function, where one is named.
const All = "*"

// Section is the part of a state that is about one thing: the driver, a GPU, a
// MIG device of it, a link.
type Section struct {
	state  State
	prefix string
}

// Driver is the section of the whole library.
func (s State) Driver() Section { return Section{state: s} }

// GPU is the section of the GPU in a slot, 0 to 63. NVML counts GPUs that have
// a UUID, in the order of their slots.
func (s State) GPU(slot int) Section {
	return Section{state: s, prefix: fmt.Sprintf("gpu.%d.", slot)}
}

// MIG is the section of a GPU's MIG device, by NVML's index.
func (s Section) MIG(index int) Section {
	return Section{state: s.state, prefix: fmt.Sprintf("%smig.%d.", s.prefix, index)}
}

// Link is the section of one of a GPU's NVLinks.
func (s Section) Link(link int) Section {
	return Section{state: s.state, prefix: fmt.Sprintf("%slink.%d.", s.prefix, link)}
}

// Set sets the value of a key in the section.
func (s Section) Set(key string, value any) Section {
	s.state[s.prefix+key] = fmt.Sprint(value)
	return s
}

// Get is the value of a key in the section, empty if there is none.
func (s Section) Get(key string) string { return s.state[s.prefix+key] }

// Delete drops keys of the section: what NVML says of them is then "not
// supported".
func (s Section) Delete(keys ...string) Section {
	for _, key := range keys {
		delete(s.state, s.prefix+key)
	}
	return s
}

// Remove drops all that is said in the section: the GPU is unplugged, the MIG
// device destroyed.
func (s Section) Remove() {
	maps.DeleteFunc(s.state, func(key, _ string) bool { return strings.HasPrefix(key, s.prefix) })
}

// Fail makes a function answer an error, by its name ("GPU_IS_LOST") or its
// number. The function's name may be without its version; All means every one.
func (s Section) Fail(function string, reason any) Section {
	return s.Set("error."+function, reason)
}

// Hang makes a function block for a time before it answers, or until it no
// longer is to hang.
func (s Section) Hang(function string, time time.Duration) Section {
	return s.Set("hang."+function, fmt.Sprintf("%dms", time.Milliseconds()))
}

// Mend takes back what Fail and Hang said of the function.
func (s Section) Mend(function string) Section {
	return s.Delete("error."+function, "hang."+function)
}

// text is the state as a file, in order.
func (s State) text() string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s = %s\n", key, s[key])
	}
	return text.String()
}

// NewState is a driver without GPUs.
func NewState() State {
	return State{
		"driver.version": DriverVersion,
		"cuda.version":   "13000",
	}
}

// UUID is the UUID that AddGPU gives the GPU in the slot.
func UUID(slot int) string { return fmt.Sprintf("GPU-%08x-0000-4000-8000-000000000000", slot) }

// BusID is the PCI bus ID that AddGPU gives the GPU in the slot.
func BusID(slot int) string { return fmt.Sprintf("00000000:%02X:00.0", 0x10+slot) }

// AddGPU puts an H100 into the slot: every reading that the library knows, in
// good health, without NVLinks and with MIG off.
func (s State) AddGPU(slot int) Section {
	gpu := s.GPU(slot)
	for key, value := range map[string]any{
		"uuid": UUID(slot), "name": "NVIDIA H100 80GB HBM3", "serial": 1650000000 + slot, "minor": slot,
		"pci": BusID(slot), "pci.device-id": "0x233010de", "pci.subsystem-id": "0x16c110de",
		"architecture": 9, "brand": 14, "addressing-mode": 1, "compute-capability": "9.0",
		"memory.total": 80 << 30, "memory.reserved": 512 << 20, "memory.used": 0,
		"utilization.gpu": 0, "utilization.memory": 0, "temperature": 31, "temperature.memory": 44,
		"power.usage": 70_000, "power.limit": 700_000, "energy": 1_000_000,
		"clock.graphics": 345, "clock.sm": 345, "clock.memory": 2619, "clock.video": 765,
		"clocks-event-reasons": "0x1", "pcie.replays": 0,
		"ecc.corrected.volatile": 0, "ecc.corrected.aggregate": 0,
		"ecc.uncorrected.volatile": 0, "ecc.uncorrected.aggregate": 0, "ecc.sram-threshold-exceeded": 0,
		"remapped-rows.corrected": 0, "remapped-rows.uncorrected": 0, "remapped-rows.pending": 0, "remapped-rows.failure": 0,
		"repair.channel": 0, "repair.tpc": 0, "unrepairable-memory": 0,
		"recovery-action": 0, "events": "0xff9f", "mig.current": 0, "mig.pending": 0, "mig.max": 7,
		"topology": "system",
	} {
		gpu.Set(key, value)
	}
	return gpu
}

// MIGUUID is the UUID that AddMIG gives the MIG device.
func MIGUUID(slot, index int) string {
	return fmt.Sprintf("MIG-%08x-%04x-5000-8000-000000000000", slot, index)
}

// AddMIG creates the MIG device with this index on the GPU, of so many slices
// and so much memory, in a GPU instance of its own: index + 1. It turns MIG on.
func (s State) AddMIG(slot, index, slices, memoryMB int) Section {
	gpu := s.GPU(slot).Set("mig.current", 1).Set("mig.pending", 1)
	mig := gpu.MIG(index)
	for key, value := range map[string]any{
		"uuid": MIGUUID(slot, index), "name": fmt.Sprintf("%s MIG %dg.%dgb", gpu.Get("name"), slices, memoryMB>>10),
		"gi": index + 1, "ci": 0,
		"memory.total": memoryMB << 20, "memory.used": 0,
		"attribute.memory": memoryMB, "attribute.multiprocessors": 16 * slices,
		"attribute.gi-slices": slices, "attribute.ci-slices": slices, "attribute.copy-engines": slices,
	} {
		mig.Set(key, value)
	}
	return mig
}

// Partition turns MIG on, and lets GPU instances be created on the GPU, with the profiles and placements of an
// H100 with 80 GB. They are in a file of their own, so that an Update leaves them.
func (s State) Partition(slot int) Section {
	gpu := s.GPU(slot).Set("mig.current", 1).Set("mig.pending", 1)
	for profile, value := range map[int]string{
		0: "1 7 10240 16 1 0 1 0 1 2 3 4 5 6", 7: "1 1 10240 16 1 1 1 0 1 2 3 4 5 6", 9: "1 4 20480 26 1 0 2 0 2 4 6",
		1: "2 3 20480 32 2 0 2 0 2 4", 2: "3 2 40960 60 3 0 4 0 4", 3: "4 1 40960 64 4 0 4 0", 4: "7 1 81920 132 7 1 8 0",
	} {
		gpu.Set(fmt.Sprintf("gi-profile.%d", profile), value)
	}
	return gpu
}

// Switched connects each of the GPUs by so many NVLinks to switches, four links
// to each.
func (s State) Switched(links int, slots ...int) {
	for _, slot := range slots {
		for n := range links {
			s.GPU(slot).Link(n).Set("state", 1).Set("type", "switch").Set("remote", fmt.Sprintf("00000000:%02X:00.0", 0xC0+n/4))
		}
		s.GPU(slot).Set("links", links)
	}
}

package smi

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is a kind of events, by KFD's number (enum kfd_smi_event).
type Kind uint

// The kinds that this package knows.
const (
	// VMFault is an access to memory that failed: a program's fault, mostly.
	VMFault Kind = 1
	// ThermalThrottle means that heat slows the GPU down.
	ThermalThrottle Kind = 2
	// PreReset means that the GPU is about to be reset: what runs on it is lost.
	PreReset Kind = 3
	// PostReset means that a reset is over, and that it worked.
	PostReset Kind = 4
)

// mask is the bit by which an event is asked for (KFD_SMI_EVENT_MASK_FROM_INDEX).
func (k Kind) mask() uint64 { return 1 << (k - 1) }

// String is such as "pre-reset".
func (k Kind) String() string {
	switch k {
	case VMFault:
		return "vm-fault"
	case ThermalThrottle:
		return "thermal-throttle"
	case PreReset:
		return "pre-reset"
	case PostReset:
		return "post-reset"
	}
	return "kind " + strconv.FormatUint(uint64(k), 10)
}

// Event is one event of a GPU.
type Event struct {
	Kind Kind
	// PID and Process are of the program whose access failed (VMFault); it chose its
	// name itself.
	PID     uint64
	Process string
	// Throttlers are what slows the GPU down (ThermalThrottle), in bits that are those
	// of indep_throttle_status in newer kernels. Count is how often heat did so since
	// the driver was loaded.
	Throttlers, Count uint64
	// Sequence numbers the GPU's resets (PreReset, PostReset). Reason is why; empty on
	// kernels that do not say.
	Sequence uint64
	Reason   string
}

// parse reads a line without its end.
func parse(line string) (Event, error) {
	number, payload, _ := strings.Cut(line, " ")
	kind, err := hex(number, 32)
	if err != nil {
		return Event{}, fmt.Errorf("the number of the event: %w", err)
	}
	e := Event{Kind: Kind(kind)}
	switch e.Kind {
	case VMFault:
		pid, process, ok := strings.Cut(payload, ":")
		if !ok {
			return Event{}, fmt.Errorf("%q has no colon", payload)
		}
		e.Process = process
		e.PID, err = hex(pid, 32)
	case ThermalThrottle:
		bits, count, ok := strings.Cut(payload, ":")
		if !ok {
			return Event{}, fmt.Errorf("%q has no colon", payload)
		}
		if e.Throttlers, err = hex(bits, 64); err == nil {
			e.Count, err = hex(count, 64)
		}
	case PreReset, PostReset:
		sequence, reason, _ := strings.Cut(payload, " ")
		e.Reason = strings.TrimSpace(reason)
		e.Sequence, err = hex(sequence, 32)
	default:
		err = fmt.Errorf("event %d is not one of those that are known", kind)
	}
	if err != nil {
		return Event{}, err
	}
	return e, nil
}

// hex reads hexadecimal digits and nothing else.
func hex(text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(text, 16, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is no hexadecimal number of %d bits", text, bits)
	}
	return n, nil
}

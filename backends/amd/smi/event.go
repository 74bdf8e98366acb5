package smi

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is a kind of events, by KFD's number (enum kfd_smi_event).
type Kind uint

// The kinds that are read. Failed accesses to memory (1) are not: their lines have the name of
// a program, which the program chooses, and could so be taken for other events.
const (
	// ThermalThrottle means that heat throttles the GPU.
	ThermalThrottle Kind = 2
	// PreReset means that the GPU is about to be reset: what runs on it is lost.
	PreReset Kind = 3
	// PostReset means that a reset succeeded.
	PostReset Kind = 4
)

// mask has the bits by which the events are requested (KFD_SMI_EVENT_MASK_FROM_INDEX).
const mask = 1<<(ThermalThrottle-1) | 1<<(PreReset-1) | 1<<(PostReset-1)

// Event is one event of a GPU.
type Event struct {
	Kind Kind
	// Count is how often heat throttled the GPU since the driver was loaded (ThermalThrottle).
	Count uint64
	// Reason is why the GPU is reset (PreReset, PostReset); empty on older kernels.
	Reason string
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
	case ThermalThrottle:
		bits, count, ok := strings.Cut(payload, ":") // the bits are what throttles it
		if !ok {
			return Event{}, fmt.Errorf("%q has no colon", payload)
		}
		if _, err = hex(bits, 64); err == nil {
			e.Count, err = hex(count, 64)
		}
	case PreReset, PostReset:
		sequence, reason, _ := strings.Cut(payload, " ")
		e.Reason = strings.TrimSpace(reason)
		_, err = hex(sequence, 32)
	default:
		err = fmt.Errorf("event %d is unknown", kind)
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

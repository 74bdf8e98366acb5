// Package cordon is the annotation of a Node that keeps devices from new pods: who wrote an entry, when and why.
// The agent reads it; `kubectl accelmux cordon`, or another client that may change the Node, writes it.
package cordon

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/text"
)

// Annotation is the annotation's key. Its value is a JSON list of entries.
const Annotation = "accelmux.io/cordoned"

// The bounds on the annotation: entries, and bytes of each text of one. Kubernetes allows 256 KiB for all annotations
// of an object.
const (
	maxEntries = 512
	maxText    = 256
)

// Entry is one device that no new pod gets.
type Entry struct {
	// Device is BACKEND/ID, as `accelmux devices -o name` prints it.
	Device string `json:"device"`
	// By is who cordoned it, and Reason why; both may be missing.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Since is when; the zero value if that is not known.
	Since time.Time `json:"since,omitzero"`
}

// String is who cordoned the device, and why: "cordoned by alice: replace the fan".
func (e Entry) String() string {
	s := "cordoned"
	if e.By != "" {
		s += " by " + e.By
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Parse returns the entries of an annotation's value; none of "". Texts that are not printable or too long are
// changed. The error says what is wrong with the value.
func Parse(value string) ([]Entry, error) {
	if value == "" {
		return nil, nil
	}
	var entries []Entry
	if err := json.Unmarshal([]byte(value), &entries); err != nil {
		return nil, fmt.Errorf("the annotation %s must be a JSON list like [{\"device\": \"nvidia/GPU-1\", \"by\": \"alice\", \"reason\": \"fan\"}]: %w", Annotation, err)
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("the annotation %s has %d entries; at most %d are allowed", Annotation, len(entries), maxEntries)
	}
	for i := range entries {
		e := &entries[i]
		if err := checkDevice(e.Device); err != nil {
			return nil, fmt.Errorf("entry %d of the annotation %s: %w", i+1, Annotation, err)
		}
		e.Device, e.By, e.Reason = text.Printable(e.Device, maxText), text.Printable(e.By, maxText), text.Printable(e.Reason, maxText)
	}
	return entries, nil
}

func checkDevice(device string) error {
	if backend, id, ok := strings.Cut(device, "/"); !ok || backend == "" || id == "" || len(device) > maxText {
		return fmt.Errorf("device %q must be BACKEND/ID, of at most %d bytes", text.Cut(device, maxText), maxText)
	}
	return nil
}

// Add returns the annotation's value with an entry, which replaces an earlier one of the device. The error is Parse's,
// or says what is wrong with the entry.
func Add(value string, e Entry) (string, error) {
	entries, err := Parse(value)
	if err != nil {
		return "", err
	}
	if err := checkDevice(e.Device); err != nil {
		return "", err
	}
	entries = append(without(entries, e.Device), e)
	if len(entries) > maxEntries {
		return "", fmt.Errorf("the Node has %d cordoned devices already; more are not allowed", maxEntries)
	}
	return format(entries)
}

// ErrNotCordoned means that there is no entry of the device.
var ErrNotCordoned = errors.New("the device is not cordoned")

// Remove returns the annotation's value without the device's entry; "" if none is left. The error is Parse's or
// [ErrNotCordoned].
func Remove(value, device string) (string, error) {
	entries, err := Parse(value)
	if err != nil {
		return "", err
	}
	before := len(entries)
	if entries = without(entries, device); len(entries) == before {
		return "", ErrNotCordoned
	}
	if len(entries) == 0 {
		return "", nil
	}
	return format(entries)
}

func format(entries []Entry) (string, error) {
	value, err := json.Marshal(entries)
	return string(value), err
}

func without(entries []Entry, device string) []Entry {
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Device == device })
}

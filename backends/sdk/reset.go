package sdk

import (
	"fmt"
	"log/slog"
	"strings"
)

// Targets compares the devices of a call with those that a backend lists. Fill it in Prepare
// or Reset.
type Targets struct {
	// Unknown are IDs of the call that are not listed.
	Unknown []string
	// Others are listed devices that a reset affects, too, though the call does not name them.
	Others []string
}

// Missing returns an error if a device is unknown.
func (t Targets) Missing() error {
	if len(t.Unknown) == 0 {
		return nil
	}
	return fmt.Errorf("there is no device %s (any more)", strings.Join(t.Unknown, ", "))
}

// Alone returns an error if a reset would affect devices that the call does not name, and that
// may be allocated.
func (t Targets) Alone() error {
	if len(t.Others) == 0 {
		return nil
	}
	return fmt.Errorf("a reset would also reset devices that were not requested, and may be in use: %s", strings.Join(t.Others, ", "))
}

// ResetResults returns the answer to a reset, one result for each device. An err, which is
// logged, is the result of all: none has recovered. Without it, healthy is called for each
// device: nil means that it has recovered, with the message done; an error has the reason.
func ResetResults(log *slog.Logger, devices []string, done string, healthy func(device string) error, err error) []*ResetResult {
	if err != nil {
		log.Warn("no reset", "devices", devices, "error", err)
	}
	var all []*ResetResult
	for _, id := range devices {
		result := &ResetResult{DeviceId: id, Message: done}
		if err != nil {
			result.Message = err.Error()
		} else if why := healthy(id); why != nil {
			result.Message = fmt.Sprintf("the reset was done, but %v (%s)", why, done)
		} else {
			result.Recovered = true
		}
		all = append(all, result)
	}
	return all
}

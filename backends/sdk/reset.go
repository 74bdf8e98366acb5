package sdk

import (
	"fmt"
	"log/slog"
	"strings"
)

// Reach is what a call for some devices finds beside them.
type Reach struct {
	// Unknown are devices asked for that there are none of.
	Unknown []string
	// Others are listed devices that a reset takes along though they were not asked for.
	Others []string
}

// Missing is an error if there are not all devices.
func (r Reach) Missing() error {
	if len(r.Unknown) == 0 {
		return nil
	}
	return fmt.Errorf("there is no device %s (any more)", strings.Join(r.Unknown, ", "))
}

// Alone is an error if a reset would reach devices that were not asked for, which
// somebody may hold.
func (r Reach) Alone() error {
	if len(r.Others) == 0 {
		return nil
	}
	return fmt.Errorf("a reset would take along what was not asked for, and may be in use: %s", strings.Join(r.Others, ", "))
}

// ResetResults answer a reset, one for each device. With err, which is logged, there
// was none, or it did not help. Else done says in words what was done, and sound why a
// device has not recovered by it; nil if it has.
func ResetResults(log *slog.Logger, devices []string, done string, sound func(device string) error, err error) []*ResetResult {
	if err != nil {
		log.Warn("no reset", "devices", devices, "error", err)
	}
	var all []*ResetResult
	for _, id := range devices {
		result := &ResetResult{DeviceId: id, Message: done}
		if err != nil {
			result.Message = err.Error()
		} else if unsound := sound(id); unsound != nil {
			result.Message = fmt.Sprintf("the reset was done, but %v (%s)", unsound, done)
		} else {
			result.Recovered = true
		}
		all = append(all, result)
	}
	return all
}
